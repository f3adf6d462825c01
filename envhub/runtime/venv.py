"""Build runtimes: virtual environments in the user's cache, from complete pins, with uv."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from envhub import directories, process
from envhub.errors import ContractError, RuntimeUnavailable
from envhub.machine import resources
from envhub.runtime.compiled import secure_compiled
from envhub.runtime.installed import OWN, refuse_foreign_envhub, worker_needs
from envhub.runtime.own_packages import copy_packages
from envhub.runtime.pins import Pins
from envhub.runtime.pythons import Python, this_python
from envhub.runtime.uv import Downloads, run_uv
from envhub.types import Interpreter

_COMPILE_TIMEOUT = 1800.0


def ensure_runtime(
    pins: Pins,
    distributions: Iterable[str],
    *,
    name: str,
    line: str,
    base: Python | None = None,
    progress: Callable[[str], None],
) -> Interpreter:
    """Return the interpreter of a runtime; build the runtime if it is missing or damaged.

    Args:
        pins: All packages of the runtime, besides EnvHub and the plugins.
        distributions: The host's distributions with the plugins that the workers need.
        name: The benchmark's name.
        line: The command that tries again, for errors.
        base: The interpreter that it is built on; None: this one.
        progress: Receives a line for each step that takes long.

    Raises:
        RuntimeUnavailable: The runtime cannot be built.
    """
    base = base or this_python()
    refuse_foreign_envhub((pin.name for pin in pins.pins), f"The runtime of {name}")
    complete = _without_own(pins.applying(base.markers))
    _check_needs(complete, name)
    key, former = key_of(complete, base), former_key_of(complete, base)

    def build(place: Path) -> dict[str, Any]:
        began = time.monotonic()
        progress(f"Building the runtime of {name} ({len(complete.pins)} packages) ...")
        _install(complete, place, name, line, base, progress)
        seconds = time.monotonic() - began
        size = f"{len(complete.pins)} packages, {directories.size_of(place) / 10**6:,.0f} MB"
        progress(f"Built the runtime of {name} in {seconds:.1f} s: {size}.")
        return {
            "for": name,
            "rebuild": line,
            "python": base.name,
            "platform": base.platform,
            "packages": {pin.name: pin.version for pin in complete.pins},
            "pins": complete.digest,
            "seconds": round(seconds, 1),
        }

    place = directories.ensure(directories.RUNTIMES, key, build, tag=base.tag, message=progress)
    secure_compiled(key, progress)
    paths = copy_packages(distributions, message=progress)
    return Interpreter("isolated", str(place / "venv/bin/python"), key, paths, former_key=former)


def key_of(pins: Pins, base: Python) -> str:
    """Return the key of the runtime that `ensure_runtime` builds from pins.

    EnvHub is not part of a runtime, so that it can be upgraded while a run is not finished.
    """
    return _hash(_without_own(pins.applying(base.markers)), base)


def former_key_of(pins: Pins, base: Python) -> str:
    """Return the key that 0.1.0 gave the same runtime, as runs of format 1 recorded it."""
    return _hash(_without_own(pins.applying(base.markers)), base, "0.1.0")


def _hash(pins: Pins, base: Python, *more: str) -> str:
    content = [pins.text(), base.name, base.platform, base.base, *more]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _install(
    pins: Pins, place: Path, name: str, line: str, base: Python, progress: Callable[[str], None]
) -> None:
    """Install the pins with uv. No installed code runs; even compiling is done from outside."""
    pins_file, work = place / "pins.txt", place / "work"
    pins_file.write_text(pins.text(), encoding="utf-8")
    work.mkdir()
    common: dict[str, Any] = {
        "directory": work,
        "subject": f"The runtime of {name}",
        "requirements": [f"{pin.name}=={pin.version}" for pin in pins.pins],
        "line": line,
    }
    venv = place / "venv"
    python = ("--python", base.executable, "--no-python-downloads")
    run_uv(["venv", venv, "--relocatable", "--no-project", "--quiet", *python], **common)
    before = _startup_files(venv)
    run_uv(
        [
            *("pip", "install", "--python", venv, "--require-hashes", "--no-deps"),
            *("--link-mode", "copy", "--no-compile-bytecode", "--no-python-downloads"),
            *_wheels_only(pins),
            *("-r", pins_file),
        ],
        on_line=Downloads(progress).on_line,
        **common,
    )
    work.rmdir()
    if _startup_files(venv) != before:
        raise RuntimeUnavailable(
            f"A package of the runtime of {name} replaces files of its interpreter.",
            "The runtime is not used, and nothing in it was run.",
        )
    # Without `site`, which would run the code of *.pth files. Files with errors are skipped.
    argv = [base.executable, "-I", "-S", "-m", "compileall", "-q", "-j", str(resources.cores())]
    process.run([*argv, venv / "lib"], timeout=_COMPILE_TIMEOUT)


def _startup_files(venv: Path) -> dict[str, str]:
    """Describe the files that decide which code an interpreter starts with, before any sandbox.

    A wheel can contain files for any place in the environment, including these.
    """
    files = {"pyvenv.cfg": (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")}
    for path in sorted((venv / "bin").glob("python*")):
        files[path.name] = str(path.readlink()) if path.is_symlink() else "a file"
    return files


def _wheels_only(pins: Pins) -> list[str]:
    if not pins.build:
        return ["--only-binary", ":all:"]
    wheels = [pin.name for pin in pins.pins if pin.name not in pins.build]
    return [word for name in wheels for word in ("--only-binary", name)]


def _without_own(pins: Pins) -> Pins:
    """Return all pins but EnvHub's own, of which every runtime gets a copy."""
    return Pins(tuple(pin for pin in pins.pins if pin.name != OWN), pins.build)


def _check_needs(pins: Pins, name: str) -> None:
    versions = {pin.name: pin.version for pin in pins.pins}
    for need in map(Requirement, worker_needs()):
        version = versions.get(need.name)
        if version is None or not need.specifier.contains(version, prereleases=True):
            problem = f"has {need.name} {version}" if version else f"lacks {need.name}"
            raise ContractError(
                f"The list of pins of {name} {problem}; a worker needs {need}. Pin that version."
            )
