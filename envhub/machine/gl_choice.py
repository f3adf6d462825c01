"""Which GL backend a worker gets: one that draws here, tried once and remembered.

A try starts a process and takes 0.2 s, also for workers that never draw. Its outcome is noted in
the cache, and the note is valid until a library, a driver, a device or a variable changes.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from envhub.files import cache_home, write_whole
from envhub.machine.gl import AUTOMATIC, Missing, Renders, probe_gl

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "MUJOCO_EGL_DEVICE_ID")
_PREFIXES = ("NVIDIA_", "__EGL_")
_FILES = (
    "/proc/sys/kernel/random/boot_id",
    "/etc/ld.so.cache",
    "/etc/glvnd/egl_vendor.d",
    "/usr/share/glvnd/egl_vendor.d",
    "/proc/driver/nvidia/version",
)
"""Files and directories that change with libraries and drivers; not every machine has them all."""
_DEVICES = ("dri/*", "nvidia*", "dxg", "kfd")


def gl_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that select a GL backend which draws here.

    Args:
        variables: The other variables of the worker. If the user chose a backend among them, it is
            kept, also if it does not draw.

    Returns:
        Nothing if no backend draws here: envs without pixels need none.
    """
    if variables.get("MUJOCO_GL"):
        return {}
    platform = variables.get("PYOPENGL_PLATFORM", "").lower()
    if platform:
        return {"MUJOCO_GL": platform} if platform in AUTOMATIC else {}
    backend = _drawing_backend(frozenset(_relevant(variables)))
    # MuJoCo sets PYOPENGL_PLATFORM by itself. If it were set here, MuJoCo would refuse the backend
    # of an env file that chooses another one.
    return {"MUJOCO_GL": backend} if backend else {}


def forget() -> None:
    """Delete the note, so that the backends are tried again."""
    with suppress(OSError):  # it does not exist, or is not ours
        _note_path().unlink()


def _relevant(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in variables.items():
        if name in _VARIABLES or name.startswith(_PREFIXES):
            yield name, value


@cache
def _drawing_backend(variables: frozenset[tuple[str, str]]) -> str | None:
    here = _conditions(variables)
    with suppress(OSError, ValueError, KeyError, TypeError):  # no note, or a damaged one
        note = json.loads(_note_path().read_text(encoding="utf-8"))
        if note["here"] == here and note["backend"] in (*AUTOMATIC, None):
            return str(note["backend"]) if note["backend"] else None
    return _try_backends(dict(variables), here)


def _try_backends(variables: dict[str, str], here: str) -> str | None:
    answers = []
    for backend in AUTOMATIC:
        answers.append(probe_gl(backend, variables=variables))
        if isinstance(answers[-1], Renders):
            _remember(here, backend)
            return backend
    if all(isinstance(answer, Missing) for answer in answers):  # a failure may pass
        _remember(here, None)
    return None


def _remember(here: str, backend: str | None) -> None:
    path = _note_path()
    with suppress(OSError):  # not writable: tried again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"here": here, "backend": backend})
        write_whole(path, content.encode(), durable=False)


def _note_path() -> Path:
    return cache_home() / "gl.json"


def _conditions(variables: frozenset[tuple[str, str]]) -> str:
    """Return the digest of everything that decides which backends draw."""
    devices = (path for pattern in _DEVICES for path in Path("/dev").glob(pattern))
    facts = [
        sorted(variables),
        [os.getuid(), sorted(os.getgroups())],
        [_stamp(path) for path in (*map(Path, _FILES), *sorted(devices))],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _stamp(path: Path) -> list[str | int]:
    """Return what changes with a path: the text of the kernel's files, else size and times."""
    try:
        if path.is_relative_to("/proc"):
            return [path.read_text(encoding="utf-8")]
        status = path.stat()
    except OSError:
        return []
    times = [] if path.is_relative_to("/dev") else [status.st_size, status.st_mtime_ns]
    return [str(path), status.st_mode, status.st_uid, status.st_gid, *times]
