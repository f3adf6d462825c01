"""Which GPU each worker draws with: they take turns, unless the user has chosen one.

MuJoCo and robosuite read `MUJOCO_EGL_DEVICE_ID`, the number of a device in EGL's list. NVIDIA's
driver lists its GPUs first, in the order of `/dev/nvidia0`, `/dev/nvidia1` ...
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

_DEVICE = re.compile(r"nvidia(\d+)")
_started = itertools.count()


def drawing_devices(names: Iterable[str], variables: Mapping[str, str]) -> tuple[int, ...]:
    """Return the GPUs that workers are spread over; nothing if there is no choice.

    Args:
        names: The names of files in `/dev`.
        variables: Those of a worker: the backend, and what the user chose.
    """
    if variables.get("MUJOCO_EGL_DEVICE_ID") or variables.get("MUJOCO_GL") != "egl":
        return ()
    found = sorted(int(match[1]) for name in names if (match := _DEVICE.fullmatch(name)))
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        parts = [part.strip() for part in visible.split(",")]
        if not all(part.isdecimal() for part in parts):  # names of GPUs, whose numbers nobody knows
            return ()
        found = [number for number in dict.fromkeys(map(int, parts)) if number in found]
    return tuple(found) if len(found) > 1 else ()


def device_of(worker: int, devices: Sequence[int]) -> dict[str, str]:
    """Return the variable that gives a worker its device; nothing if there is no choice.

    Args:
        worker: How many workers were started before it.
        devices: From `drawing_devices`.
    """
    if not devices:
        return {}
    return {"MUJOCO_EGL_DEVICE_ID": str(devices[worker % len(devices)])}


def next_device(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variable for the next worker of this process."""
    return device_of(next(_started), drawing_devices(_names(), variables))


def used_devices(backend: str | None, variables: Mapping[str, str]) -> list[int]:
    """Return the GPUs that a run's workers are spread over, or the one that the user chose.

    Args:
        backend: The GL backend of the workers.
        variables: The other variables of the workers.
    """
    chosen = variables.get("MUJOCO_EGL_DEVICE_ID", "")
    if backend == "egl" and chosen.isdecimal():
        return [int(chosen)]
    return list(drawing_devices(_names(), {**variables, "MUJOCO_GL": backend or ""}))


@cache
def _names() -> tuple[str, ...]:
    return tuple(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
