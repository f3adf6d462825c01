"""The arguments of a vector environment's `reset` and `step`, one for each env."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import iterate

from envhub.text import pluralize
from envhub.wire.values import Array


def split_seed(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Return the seed of each env."""
    if seed is None:
        return [None] * count
    if isinstance(seed, int | np.integer):
        return [int(seed) + row for row in range(count)]
    if len(seed) != count:
        given, envs = pluralize(len(seed), "seed"), pluralize(count, "env")
        raise ValueError(f"reset got {given} for {envs}; give one per env.")
    return [None if number is None else int(number) for number in seed]


def split_options(
    options: dict[str, Any] | None, count: int
) -> tuple[list[int], dict[str, Any] | None]:
    """Return the envs to reset, and the options that are passed to them."""
    if options is None or "reset_mask" not in options:
        return list(range(count)), options
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must be an array of bool, got {mask!r}")
    if mask.shape != (count,) or not mask.any():
        raise ValueError(
            f"options['reset_mask'] must have {count} values, at least one of them True, got {mask}"
        )
    passed = {key: value for key, value in options.items() if key != "reset_mask"}
    return [int(row) for row in np.flatnonzero(mask)], passed


def split_actions(space: gym.Space[Any], actions: Any, count: int) -> list[Any]:
    """Split a batch of actions into one per env."""
    each = [as_numpy(action) for action in iterate(space, actions)]
    if len(each) != count:
        given, envs = pluralize(len(each), "action"), pluralize(count, "env")
        raise ValueError(f"step got {given} for {envs}; give one per env.")
    return each


def fits(actions: Any, shared: Array) -> bool:
    """Whether actions fit into shared memory unchanged: a cast could change their values."""
    return (
        isinstance(actions, np.ndarray)
        and actions.dtype == shared.dtype
        and actions.shape == (shared.shape[0], *shared.shape[2:])
    )


def as_numpy(action: Any) -> Any:
    """Convert an array of another library to numpy's."""
    if hasattr(action, "__array__") and not isinstance(action, np.ndarray | np.generic):
        return np.asarray(action)
    return action
