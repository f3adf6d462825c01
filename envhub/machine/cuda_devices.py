"""Which GPU each process of a policy computes with: they take turns.

CUDA numbers the GPUs that it finds from 0, whatever the numbers of their files in `/dev` are: a
container may have only `/dev/nvidia3`. It reads `CUDA_VISIBLE_DEVICES` up to the first part that
names no GPU.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
