"""From the requirements of an env file to complete pins.

uv gets the requirement lines, which were parsed and filtered, and the user's own settings, but
nothing else that the file says. It takes wheels only, so that no code of a package runs. Its answer
is kept: the same requirements mean the same pins tomorrow, and offline.
"""

import hashlib
import json
import os
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import envhub
from envhub.errors import ContractError, RuntimeUnavailable
from envhub.files import cache_home, write_whole
from envhub.runtime.installed import OWN, meets_python, refuse_another, worker_needs
from envhub.runtime.pins import Pins, parse_pins
from envhub.runtime.uv import run_uv
from envhub.sources.requirements import Requirements


def resolve(requirements: Requirements, *, name: str, line: str) -> Pins:
    """Complete pins for what an env file requires and a worker needs.

    Args:
        requirements: What the file declares.
        name: What errors call it.
        line: What to type to try again.

    Raises:
        RuntimeUnavailable: They cannot be had, together or at all.
    """
    refuse_python(requirements.python, name)
    packages = [Requirement(text) for text in requirements.packages]
    refuse_another((package.name for package in packages), name)
    wanted = sorted({*_foreign(packages, name), *worker_needs()})
    kept = cache_home() / "resolved" / f"{_key(wanted)}.txt"
    if kept.is_file():
        try:
            return parse_pins(kept.read_text(encoding="utf-8"), str(kept))
        except (ContractError, OSError, UnicodeDecodeError):
            kept.unlink()  # damaged: asked for anew
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".empty-", dir=kept.parent) as directory:
        said = run_uv(
            [
                *("pip", "compile", "-", "--only-binary", ":all:", "--generate-hashes"),
                *("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
                *("--quiet", "--no-python-downloads", "--python", sys.executable),
            ],
            directory=Path(directory),
            stdin="".join(f"{one}\n" for one in wanted),
            what=f"The runtime of {name}",
            requirements=wanted,
            line=line,
        )
        pins = parse_pins(said, f"what uv made of the requirements of {name}")
        if kept.is_file():  # another process was first, and its answer is the one that counts
            return parse_pins(kept.read_text(encoding="utf-8"), str(kept))
        write_whole(kept, pins.text().encode())
    return pins


def forget(digest: str) -> None:
    """Forget whatever was resolved to these pins, so that it is asked for anew."""
    base = cache_home() / "resolved"
    for path in base.glob("*.txt") if base.is_dir() else ():
        try:
            pins = parse_pins(path.read_text(encoding="utf-8"), str(path))
        except (ContractError, OSError, UnicodeDecodeError):
            continue
        if pins.here().digest == digest:
            path.unlink(missing_ok=True)


def here() -> tuple[str, str, str]:
    """The interpreter and the platform that pins are for and runtimes are built on."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    return python, f"{sysconfig.get_platform()} {'-'.join(platform.libc_ver())}", base


def refuse_python(specifier: str | None, name: str) -> None:
    """Refuse what this interpreter cannot run.

    Raises:
        RuntimeUnavailable: It has another version.
    """
    if not meets_python(specifier):
        raise RuntimeUnavailable(
            f"{name} requires Python {specifier}; this is {platform.python_version()}, and "
            "runtimes are built on the interpreter that EnvHub runs on.",
            "Install EnvHub in an interpreter of that version, and run it there.",
            requirement=f"Python {specifier}",
        )


def _foreign(packages: list[Requirement], name: str) -> list[str]:
    """What an index is asked for: all but EnvHub itself, which every runtime has."""
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


def _key(wanted: list[str]) -> str:
    text = json.dumps([wanted, *here()[:2]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]
