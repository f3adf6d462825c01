"""Choose the GL backend that a simulator renders with off screen, and try which ones work.

`envhub.machine.gl_choice` chooses for every worker by trying; `choose_backend` is for plugins, in
the worker, before the simulator is imported.
"""

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envhub import process
from envhub.errors import ContractError

Backend = Literal["egl", "osmesa", "glfw"]

PACKAGES = "libegl1 libgl1 libgles2 libosmesa6 libglfw3"
"""The packages of Debian and Ubuntu with the GL libraries."""
# One library of each tuple must be installed. GLFW's own comes with its Python package.
_LIBRARIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "egl": (("libEGL.so.1",), ("libOpenGL.so.0", "libGL.so.1")),
    "osmesa": (("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),),
    "glfw": (),
}
AUTOMATIC: tuple[Backend, ...] = ("egl", "osmesa")
"""EGL is 1.3 to 2.8 times faster than OSMesa, also in software. GLFW needs a display."""
_PROBE = Path(__file__).with_name("glprobe.py")
_TIMEOUT = 20.0
"""Seconds; a first start from a cold network disk loads 100 MB of LLVM, a warm one takes 0.2."""


@dataclass(frozen=True, slots=True)
class Renders:
    """A triangle was drawn and read back."""

    renderer: str
    """The driver's own name, e.g. `llvmpipe (LLVM 15.0.6, 256 bits)`."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A library or the display is missing."""

    what: str


@dataclass(frozen=True, slots=True)
class Fails:
    """The backend is installed, but does not render."""

    problem: str


def choose_backend() -> str:
    """Choose a backend whose libraries are installed, and set the variables that select it.

    Sets `MUJOCO_GL` and `PYOPENGL_PLATFORM`, which must happen before anything of OpenGL is
    imported. A backend that is already set in one of them is kept.

    Raises:
        ContractError: No backend can be used; says what to install.
    """
    preset = os.environ.get("MUJOCO_GL") or os.environ.get("PYOPENGL_PLATFORM")
    problems = []
    for backend in (preset.lower(),) if preset else AUTOMATIC:
        problem = _problem(backend)
        if problem is None:
            os.environ["MUJOCO_GL"] = backend
            if backend in AUTOMATIC:
                os.environ["PYOPENGL_PLATFORM"] = backend
            return backend
        problems.append(f"{backend}: {problem}")
    raise cannot_draw("; ".join(problems))


def cannot_draw(problem: str) -> ContractError:
    """Return the error that rendering does not work here."""
    return ContractError(
        f"Rendering does not work here ({problem}). Install the GL libraries (apt-get install "
        f"{PACKAGES}), or use a policy that needs no pixels; envhub doctor shows the backends that "
        "work, and MUJOCO_GL=egl chooses one."
    )


def probe_gl(
    backend: Backend,
    *,
    library: str | None = None,
    variables: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
) -> Renders | Missing | Fails:
    """Try to render with a backend, in a process of its own.

    Args:
        backend: As in `MUJOCO_GL`.
        library: The shared library to use instead of the backend's usual one.
        variables: All its environment variables; None: those of this process.
        timeout: The time limit in seconds.
    """
    argv = [sys.executable, "-I", str(_PROBE), backend, *([library] if library else [])]
    done = process.run(argv, timeout=timeout, env=variables)
    if done is None:
        return Fails(f"the GL probe did not end within {timeout:g} s")
    return read_answer(done)


def read_answer(done: process.Finished) -> Renders | Missing | Fails:
    """Return the result that the probe printed; if it printed none, how it ended."""
    try:
        # The last line: a driver may print before.
        answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        last_line = done.stderr.strip().rpartition("\n")[2]
        how = f"the GL probe {process.describe_exit(done.code)}"
        return Fails(f"{how}: {last_line}" if last_line else how)
    match answer:
        case {"renderer": str(renderer)}:
            return Renders(renderer)
        case {"missing": str(missing)}:
            return Missing(missing)
        case {"problem": str(problem)}:
            return Fails(problem)
        case _:
            return Fails(f"the GL probe answered {answer!r}")


def _problem(backend: str) -> str | None:
    """Return the reason why a backend cannot be used; None if its libraries can be loaded."""
    if backend not in _LIBRARIES:
        return f"MUJOCO_GL must be one of {', '.join(_LIBRARIES)}, or unset"
    for names in _LIBRARIES[backend]:
        problems = [_load(name) for name in names]
        if all(problems):
            return problems[0]
    return None


def _load(name: str) -> str | None:
    try:
        ctypes.CDLL(name)
    except OSError as exc:
        return str(exc)
    return None
