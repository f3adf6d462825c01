"""Resolve the requirements of an env file to complete pins.

uv gets the requirement lines, which were parsed and filtered, and the user's own settings, but
nothing else from the file. It uses wheels only, so that no code of a package runs. The answer is
kept: the same requirements mean the same pins tomorrow, and offline. It decides what is installed,
so it is in the user's state directory and not in the cache, where others may be able to write.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import envhub
from envhub.errors import ContractError, RuntimeUnavailable, UnknownName
from envhub.files import state_home, write_whole
from envhub.runtime.installed import OWN, refuse_foreign_envhub, worker_needs
from envhub.runtime.pins import Pins, parse_pins
from envhub.runtime.pythons import Python, this_python
from envhub.runtime.uv import run_uv
from envhub.sources.requirements import Requirements


def resolve(
    requirements: Requirements, *, name: str, line: str, base: Python | None = None
) -> Pins:
    """Return complete pins for the requirements of an env file and of a worker.

    Args:
        requirements: The requirements that the file declares.
        name: The benchmark's name in errors.
        line: The command that tries again, for errors.
        base: The interpreter that they are for; None: this one.

    Raises:
        RuntimeUnavailable: A package is not available, or the requirements conflict.
    """
    base = base or this_python()
    refuse_python(requirements.python, name, base)
    packages = [Requirement(text) for text in requirements.packages]
    refuse_foreign_envhub((package.name for package in packages), name)
    lines = sorted({*_from_index(packages, name), *worker_needs()})
    return _ask_uv(lines, (), name=name, line=line, base=base)


def with_versions(pins: Pins, versions: Mapping[str, str], *, name: str, line: str) -> Pins:
    """Return pins with some packages in other versions; all other packages stay as they are.

    Args:
        pins: Complete pins for this interpreter.
        versions: The versions by the names of packages.
        name: The benchmark's name in errors.
        line: The command that tries again, for errors.

    Raises:
        UnknownName: The pins have no such package.
        RuntimeUnavailable: There is no such version, or no wheel of it.
    """
    pinned = {pin.name: pin.version for pin in pins.here().pins}
    wanted = {str(canonicalize_name(each)): version for each, version in versions.items()}
    for each in wanted:
        if each not in pinned:
            raise UnknownName(
                "package", each, pinned, advice=f"They are those of the runtime of {name}."
            )
    changed = {each: version for each, version in wanted.items() if version != pinned[each]}
    if not changed:
        return pins
    lines = sorted(f"{each}=={version}" for each, version in changed.items())
    found = _ask_uv(lines, ("--no-deps",), name=name, line=line, base=this_python())
    kept = tuple(pin for pin in pins.pins if pin.name not in changed)
    build = tuple(each for each in pins.build if each not in changed)
    return Pins((*kept, *found.pins), build)


def _ask_uv(
    lines: list[str], options: tuple[str, ...], *, name: str, line: str, base: Python
) -> Pins:
    """Return uv's answer to some requirements, or the one that was kept."""
    kept = state_home() / "resolved" / f"{_key([*lines, *options], base)}.txt"
    if kept.is_file():
        try:
            return parse_pins(kept.read_text(encoding="utf-8"), str(kept))
        except (ContractError, OSError, UnicodeDecodeError):
            kept.unlink()  # damaged: resolved again
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".empty-", dir=kept.parent) as directory:
        resolved = run_uv(
            [
                *("pip", "compile", "-", "--only-binary", ":all:", "--generate-hashes", *options),
                *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
                *("--quiet", "--no-python-downloads", "--python", base.executable),
            ],
            directory=Path(directory),
            stdin="".join(f"{requirement}\n" for requirement in lines),
            subject=f"The runtime of {name}",
            requirements=lines,
            line=line,
        )
        pins = parse_pins(resolved, f"uv's answer to the requirements of {name}")
        if kept.is_file():  # another process was faster, and its answer counts
            return parse_pins(kept.read_text(encoding="utf-8"), str(kept))
        write_whole(kept, pins.text().encode())
    return pins


def forget(digest: str) -> None:
    """Delete the kept answers with these pins, so that uv is asked again."""
    base = state_home() / "resolved"
    for path in base.glob("*.txt") if base.is_dir() else ():
        try:
            pins = parse_pins(path.read_text(encoding="utf-8"), str(path))
        except (ContractError, OSError, UnicodeDecodeError):
            continue
        if pins.here().digest == digest:
            path.unlink(missing_ok=True)


def refuse_python(specifier: str | None, name: str, base: Python) -> None:
    """Refuse a benchmark that requires another version of Python.

    Raises:
        RuntimeUnavailable: The interpreter has another version.
    """
    if not base.meets(specifier):
        raise RuntimeUnavailable(
            f"{name} requires Python {specifier}; this is {base.version}, and "
            "runtimes are built on the interpreter that EnvHub runs on.",
            "Install EnvHub in an interpreter of that version, and run it there.",
            requirement=f"Python {specifier}",
        )


def _from_index(packages: list[Requirement], name: str) -> list[str]:
    """Return all requirements but EnvHub itself, which every runtime has."""
    for package in packages:
        if canonicalize_name(package.name) == OWN and not package.specifier.contains(
            envhub.__version__, prereleases=True
        ):
            raise RuntimeUnavailable(
                f"{name} requires {package}; this is EnvHub {envhub.__version__}.",
                f"pip install '{OWN}{package.specifier}'",
                requirement=str(package),
            )
    return [str(package) for package in packages if canonicalize_name(package.name) != OWN]


def _key(requirements: list[str], base: Python) -> str:
    text = json.dumps([requirements, base.name, base.platform])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
