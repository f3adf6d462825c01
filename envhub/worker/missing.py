"""A module that an env file imports and that is not there: which requirement to declare."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from envhub.errors import ContractError, WorkerRaised
from envhub.sources.script import Requirements, read_requirements
from envhub.types import FileSource, Interpreter, Source

_MISSING = re.compile(r"No module named '([A-Za-z_]\w*)[\w.]*'")


@contextmanager
def explaining(source: Source, interpreter: Interpreter) -> Iterator[None]:
    """Add the lines to write to the error of a file that imports what it does not declare."""
    try:
        yield
    except WorkerRaised as error:
        explained = _explain(error, source, interpreter)
        if explained is None:
            raise
        raise explained from error


def _explain(error: WorkerRaised, source: Source, interpreter: Interpreter) -> WorkerRaised | None:
    found = _MISSING.match(error.message)
    if not isinstance(source, FileSource) or error.kind != "ModuleNotFoundError" or not found:
        return None
    module = found[1]
    declared = _declared(source)
    if declared is None or _is_beside(source, module):
        return None
    known = metadata.packages_distributions().get(module)
    # Where nobody here has it, most packages are called as their module is.
    distribution = sorted(known)[0] if known else module.replace("_", "-")
    lines = _block(declared, distribution)
    called = f" (of the package {distribution})" if known else ""
    where = "its runtime" if interpreter.kind == "isolated" else "this interpreter"
    return WorkerRaised(
        error.doing,
        error.kind,
        f"{error.message}. {source.file} imports {module}{called}, which {where} does not have: "
        f"declare it at the top of the file, as in\n{lines}",
        contract=error.contract,
        traceback=error.traceback,
        where=error.where,
        log=error.log,
    )


def _declared(source: FileSource) -> Requirements | None:
    try:
        text = Path(source.directory, source.file).read_text(encoding="utf-8", errors="replace")
        return read_requirements(text, source.file)
    except (ContractError, OSError):
        return None


def _is_beside(source: FileSource, module: str) -> bool:
    """Whether it is a part of the benchmark itself, which no package provides."""
    folder = Path(source.directory)
    return (folder / f"{module}.py").exists() or (folder / module).is_dir()


def _block(declared: Requirements, distribution: str) -> str:
    packages = "".join(f'#     "{_quoted(one)}",\n' for one in (*declared.packages, distribution))
    python = f'# requires-python = "{declared.python}"\n' if declared.python else ""
    return f"# /// script\n{python}# dependencies = [\n{packages}# ]\n# ///"


def _quoted(requirement: str) -> str:
    return requirement.replace('"', "'")
