"""Reading a step's success and numbers, in a worker and in the host alike."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.wire.messages import TraceStep

SUCCESSES = ("is_success", "success")
"""The names that are read, the first one first."""
_LIKE_SUCCESS = re.compile(r"succ?e|solved|achieved|accomplished", re.IGNORECASE)
_MOST_NAMED, _MOST_TEXT = 3, 60


def describe_unread(names: Iterable[str]) -> str:
    """Say which names of an info may mean success, and are not read; empty if there are none."""
    unread = {name for name in names if name not in SUCCESSES and _LIKE_SUCCESS.search(name)}
    if not unread:
        return ""
    listed = ", ".join(repr(name[:_MOST_TEXT]) for name in sorted(unread)[:_MOST_NAMED])
    return (
        f"info has {listed}, which {'is' if len(unread) == 1 else 'are'} not read: report success "
        "as info['is_success'] or info['success']."
    )


def success_of(info: Any) -> bool | None:
    """Read the success from `info`: a bool, 0 or 1, or an array of one of them.

    Published environments report `is_success`, many others `success`.

    Returns:
        None if the env reports neither.
    """
    if type(info) is not dict and not isinstance(info, Mapping):
        raise ContractError(f"info must be a mapping, found {type(info).__name__}.")
    first, second = SUCCESSES
    value = info.get(first, info.get(second))
    if value is None or isinstance(value, bool):
        return value
    number = number_of(value)
    if number not in (0, 1):
        raise ContractError(f"info['is_success'] must be a bool, 0 or 1, found {value!r}.")
    return bool(number)


def number_of(value: Any) -> float | None:
    """Return the only number of a value, else None."""
    if isinstance(value, bool | int | float):
        return value
    # Tensors may be on another device or part of a graph, where numpy cannot read them.
    detached = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = np.asarray(detached)
    except (TypeError, ValueError):  # e.g. a list whose rows differ in length
        return None
    return array.item() if array.size == 1 and array.dtype.kind in "biuf" else None


def first_difference(one: Sequence[TraceStep], other: Sequence[TraceStep]) -> str | None:
    """Say in what two episodes differ first, and at which step; None if they do not."""
    for step, (left, right) in enumerate(zip(one, other, strict=False)):
        parts = sorted(part for part in left | right if left.get(part) != right.get(part))
        if parts:
            when = "at reset" if step == 0 else f"at step {step - 1}"
            return f"{', '.join(part or 'the observation' for part in parts)} {when}"
    if len(one) != len(other):
        return f"the number of steps, {len(one) - 1} and {len(other) - 1}"
    return None
