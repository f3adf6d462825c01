"""Runtimes: virtual environments that uv builds from complete pins, in the user's cache."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import envhub
from envhub import process
from envhub.errors import ContractError, RuntimeUnavailable
from envhub.machine import resources
from envhub.runtime import build_cache
from envhub.runtime.installed import OWN, refuse_another, worker_needs
from envhub.runtime.own_packages import copy_packages
from envhub.runtime.pins import Pins
from envhub.runtime.resolve import here
from envhub.runtime.uv import run_uv
from envhub.types import Interpreter

KIND = "runtimes"
_COMPILE_LIMIT = 1800.0


def ensure_runtime(
    pins: Pins,
    distributions: Iterable[str],
    *,
    name: str,
    line: str,
    progress: Callable[[str], None],
) -> Interpreter:
    """The interpreter of a runtime, which is built unless it is there and whole.

    Args:
        pins: All that it is to hold, besides EnvHub and the plugins.
        distributions: Plugins of the host whose packages its workers need.
        name: Of the benchmark.
        line: What to type to try again.
        progress: Receives what takes its time.

    Raises:
        RuntimeUnavailable: It cannot be built.
    """
    refuse_another((pin.name for pin in pins.pins), f"The runtime of {name}")
    complete = _without_own(pins.here())
    _check_needs(complete, name)
    key = key_of(complete)

    def build(place: Path) -> dict[str, Any]:
        began = time.monotonic()
        progress(f"Building the runtime of {name} ({len(complete.pins)} packages) ...")
        _install(complete, place, name, line)
        seconds = time.monotonic() - began
        progress(f"Built the runtime of {name} in {seconds:.1f} s.")
        return {
            "for": name,
            "python": here()[0],
            "platform": here()[1],
            "packages": {pin.name: pin.version for pin in complete.pins},
            "pins": complete.digest,
            "seconds": round(seconds, 1),
        }

    place = build_cache.ensure(KIND, key, build, message=progress)
    paths = copy_packages(distributions)
    return Interpreter("isolated", str(place / "venv/bin/python"), key, paths)


def key_of(pins: Pins) -> str:
    """The key of a runtime: of its pins, the interpreter, the platform and EnvHub's version."""
    text = json.dumps([pins.text(), *here(), envhub.__version__])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _install(pins: Pins, place: Path, name: str, line: str) -> None:
    """Build it with uv. Nothing of what is installed runs: also compiling is done from outside."""
    listed, work = place / "pins.txt", place / "work"
    listed.write_text(pins.text(), encoding="utf-8")
    work.mkdir()
    told: dict[str, Any] = {
        "directory": work,
        "what": f"The runtime of {name}",
        "requirements": [f"{pin.name}=={pin.version}" for pin in pins.pins],
        "line": line,
    }
    venv = place / "venv"
    python = ("--python", sys.executable, "--no-python-downloads")
    run_uv(["venv", venv, "--relocatable", "--no-project", "--quiet", *python], **told)
    before = _interpreter(venv)
    run_uv(
        [
            *("pip", "install", "--python", venv, "--require-hashes", "--no-deps", "--quiet"),
            *("--link-mode", "copy", "--no-compile-bytecode", "--no-python-downloads"),
            *_wheels_only(pins),
            *("-r", listed),
        ],
        **told,
    )
    work.rmdir()
    if _interpreter(venv) != before:
        raise RuntimeUnavailable(
            f"A package of the runtime of {name} puts something in the place of its interpreter.",
            "Nothing of it was run, and it is not used.",
        )
    # Without `site`, which would run the code of *.pth files; a file that is no Python is left out.
    argv = [sys.executable, "-I", "-S", "-m", "compileall", "-q", "-j", str(resources.cores())]
    process.run([*argv, venv / "lib"], timeout=_COMPILE_LIMIT)


def _interpreter(venv: Path) -> dict[str, str]:
    """What decides which code an interpreter starts with, before any sandbox is closed.

    A wheel can hold files for any place of the environment, these included.
    """
    found = {"pyvenv.cfg": (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")}
    for path in sorted((venv / "bin").glob("python*")):
        found[path.name] = str(path.readlink()) if path.is_symlink() else "a file"
    return found


def _wheels_only(pins: Pins) -> list[str]:
    if not pins.build:
        return ["--only-binary", ":all:"]
    wheels = [pin.name for pin in pins.pins if pin.name not in pins.build]
    return [word for name in wheels for word in ("--only-binary", name)]


def _without_own(pins: Pins) -> Pins:
    """All but EnvHub itself, of which every runtime gets a copy."""
    return Pins(tuple(pin for pin in pins.pins if pin.name != OWN), pins.build)


def _check_needs(pins: Pins, name: str) -> None:
    found = {pin.name: pin.version for pin in pins.pins}
    for need in map(Requirement, worker_needs()):
        version = found.get(need.name)
        if version is None or not need.specifier.contains(version, prereleases=True):
            there = f"has {need.name} {version}" if version else f"lacks {need.name}"
            raise ContractError(
                f"The list of pins of {name} {there}; a worker needs {need}. Pin that too."
            )
