"""Which GPU each process of a policy computes with, and each worker draws with: they take turns.

CUDA numbers the GPUs that it finds from 0, whatever the numbers of their files in `/dev` are: a
container may have only `/dev/nvidia3`. It reads `CUDA_VISIBLE_DEVICES` up to the first part that
names no GPU.

MuJoCo and robosuite read `MUJOCO_EGL_DEVICE_ID`, the number of a device in EGL's list. NVIDIA's
driver lists its GPUs first, in the order of `/dev/nvidia0`, `/dev/nvidia1` ...
"""

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from envhub.options import Processes

VISIBLE = "CUDA_VISIBLE_DEVICES"
_FILE = re.compile(r"nvidia\d+")
_NAMED = re.compile(r"(GPU|MIG)-\S+")


def visible_gpus(names: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that a process sees, as parts of `CUDA_VISIBLE_DEVICES`.

    Args:
        names: The names of files in `/dev`.
        variables: The user's, who may have chosen some GPUs.
    """
    found = [str(number) for number, _ in enumerate(filter(_FILE.fullmatch, names))]
    chosen = variables.get(VISIBLE)
    if chosen is None or not found:
        return tuple(found)
    parts = (part.strip() for part in chosen.split(","))
    valid = takewhile(lambda part: part in found or _NAMED.fullmatch(part), parts)
    return tuple(dict.fromkeys(valid))


def spread(processes: Processes, gpus: Sequence[str]) -> tuple[str | None, ...]:
    """Return the GPU of each process of a policy.

    Args:
        processes: How many there are.
        gpus: From `visible_gpus`.

    Returns:
        None for a process that sees what the user's variables say: the only one, and all of them
        where no GPU is visible.
    """
    count = max(1, len(gpus)) if processes == "auto" else processes
    if count == 1 or not gpus:
        return (None,) * count
    return tuple(gpus[number % len(gpus)] for number in range(count))


def policy_devices(processes: Processes) -> tuple[str | None, ...]:
    """Return the GPU of each process of a policy on this machine; `spread` says how."""
    names = [path.name for path in Path("/dev").glob("nvidia[0-9]*")]
    return spread(processes, visible_gpus(names, os.environ))


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
