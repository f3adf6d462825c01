"""Whether an observation is what its space says. Runs in the worker."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from envhub.worker.check.notes import Notes

KEYS, SHAPE, DTYPE = "observation-keys", "observation-shape", "observation-dtype"
BOUNDS, FINITE = "observation-bounds", "observation-finite"
CHECKS = (KEYS, SHAPE, DTYPE, BOUNDS, FINITE)


def check_observation(notes: Notes, observation: Any, space: Any, when: str) -> None:
    """Compare an observation with its space, leaf by leaf.

    Args:
        notes: Gets what does not fit.
        observation: What the env returned.
        space: Its observation space.
        when: The moment, e.g. `after reset`.
    """
    problems = dict(reversed(list(_problems(observation, space, "the observation"))))
    for check in CHECKS:
        problem = problems.get(check)
        notes.judge(check, None if problem is None else f"{problem} {when}.")


def _problems(value: Any, space: Any, name: str) -> Iterator[tuple[str, str]]:
    match space:
        case spaces.Dict():
            yield from _of_mapping(value, space, name)
        case spaces.Tuple():
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                yield KEYS, f"{name} is {_kind(value)}; its space is a Tuple of {len(space.spaces)}"
                return
            for index, (part, inner) in enumerate(zip(value, space.spaces, strict=True)):
                yield from _problems(part, inner, _join(name, str(index)))
        case spaces.Box():
            yield from _of_box(value, space, name)
        case _ if not space.contains(value):
            yield BOUNDS, f"{name} is {_shown(value)}, which {space} does not hold"


def _of_mapping(value: Any, space: spaces.Dict, name: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        yield KEYS, f"{name} is {_kind(value)}; its space is a Dict"
        return
    missing, extra = set(space.spaces) - set(value), set(value) - set(space.spaces)
    if missing:
        yield KEYS, f"{name} has no {', '.join(sorted(map(repr, missing)))}, which its space names"
    if extra:
        yield KEYS, f"{name} has {', '.join(sorted(map(repr, extra)))}, which its space lacks"
    for key, inner in space.spaces.items():
        if key in value:
            yield from _problems(value[key], inner, _join(name, str(key)))


def _of_box(value: Any, space: spaces.Box, name: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, np.ndarray | np.generic):
        yield DTYPE, f"{name} is {_kind(value)}; its space says an array of {space.dtype}"
        return
    if value.shape != space.shape:
        yield SHAPE, f"{name} has shape {value.shape}; its space says {space.shape}"
        return
    if value.dtype != space.dtype:
        yield DTYPE, f"{name} has dtype {value.dtype}; its space says {space.dtype}"
    if value.dtype.kind not in "biuf":
        return
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        yield FINITE, f"{name} has {_first(value, ~np.isfinite(value))}"
        return
    array = np.asarray(value)
    outside = (array < space.low) | (array > space.high)
    if outside.any():
        low, high = _first(space.low, outside), _first(space.high, outside)
        yield BOUNDS, f"{name} has {_first(value, outside)}, outside [{low}, {high}]"


def _first(array: Any, where: Any) -> Any:
    return np.asarray(array)[where].flat[0]


def _join(name: str, key: str) -> str:
    if name == "the observation":
        return f"observation {key!r}"
    return f"{name[:-1]}/{key}'"


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
