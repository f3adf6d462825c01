"""Which GL backends really render on this machine."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envhub import process

Backend = Literal["egl", "osmesa", "glfw"]

_PROBE = Path(__file__).with_name("glprobe.py")
_TIMEOUT = 20.0
"""Seconds; a first start from a cold network disk loads 100 MB of LLVM, a warm one takes 0.2."""


@dataclass(frozen=True, slots=True)
class Renders:
    """A triangle was drawn and read back."""

    renderer: str
    """What the driver calls itself, e.g. `llvmpipe (LLVM 15.0.6, 256 bits)`."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A library or the display is not there."""

    what: str


@dataclass(frozen=True, slots=True)
class Fails:
    """Everything is there, and it does not render."""

    problem: str


def probe_gl(
    backend: Backend, *, library: str | None = None, timeout: float = _TIMEOUT
) -> Renders | Missing | Fails:
    """Try to draw with a backend, in a process of its own.

    Args:
        backend: As in `MUJOCO_GL`.
        library: The shared library to use instead of the backend's usual one.
        timeout: Seconds that it may take.
    """
    argv = [sys.executable, "-I", str(_PROBE), backend, *([library] if library else [])]
    done = process.run(argv, timeout=timeout)
    if done is None:
        return Fails(f"it did not draw within {timeout:g} s")
    return read_answer(done)


def read_answer(done: process.Finished) -> Renders | Missing | Fails:
    """What the probe said; if nothing, how it ended."""
    try:
        # The last line: a driver may print before.
        answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2]
        how = f"the process that drew {process.describe_exit(done.code)}"
        return Fails(f"{how}: {last}" if last else how)
    match answer:
        case {"renderer": str(renderer)}:
            return Renders(renderer)
        case {"missing": str(what)}:
            return Missing(what)
        case {"problem": str(problem)}:
            return Fails(problem)
        case _:
            return Fails(f"the process that drew said {answer!r}")
