"""Copying observations out of shared memory, row by row as they come, into reused arrays."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import iterate

from envhub.text import pluralize
from envhub.wire.values import Array

_LARGE = 2**14
"""Bytes; larger rows are worth copying one by one while other envs still compute."""

_KEPT = 4
"""The most arrays that a pool keeps."""


class Batches:
    """Copies arrays whose rows are filled one after the other."""

    def __init__(self, views: Mapping[str, Array]) -> None:
        self._views = views
        self._pools = {
            path: ArrayPool(view)
            for path, view in views.items()
            if view[0].nbytes >= _LARGE and view.dtype != np.bool_
        }
        self._batch: dict[str, Array] = {}

    def begin(self) -> None:
        """Start a new batch."""
        self._batch = {path: pool.lend() for path, pool in self._pools.items()}

    def copy_row(self, row: int) -> None:
        """Copy a row that is complete."""
        for path, array in self._batch.items():
            array[row] = self._views[path][row]

    def finish(self) -> dict[str, Array]:
        """Return the batch, all of whose rows were copied."""
        batch, self._batch = self._batch, {}
        for path, view in self._views.items():
            if path not in batch:
                batch[path] = copied(view)
        return batch


def copied(view: Array) -> Array:
    """Copy a view; in a bool array, make other bytes than 0 a valid True."""
    return np.asarray(view.view(np.uint8) != 0) if view.dtype == np.bool_ else view.copy()


class ArrayPool:
    """Arrays of one shape and dtype, lent out again when nobody holds them any more.

    New memory costs a page fault every 4 KiB, which takes longer than the copy into it.
    """

    def __init__(self, like: Array) -> None:
        self._like = like
        self._arrays: list[Array] = []
        self._next = 0

    def lend(self) -> Array:
        """Return an array with arbitrary values."""
        for number in range(len(self._arrays)):
            if _holders(self._arrays, number) == _UNUSED:
                return self._arrays[number].view()
        array = np.empty_like(self._like)
        if len(self._arrays) < _KEPT:
            self._arrays.append(array)
        else:  # a caller who keeps many keeps them for long: pool newer ones instead
            self._arrays[self._next] = array
            self._next = (self._next + 1) % _KEPT
        return array.view()


def _holders(arrays: list[Array], number: int) -> int:
    """Count the references to an array; every view of it holds one."""
    return sys.getrefcount(arrays[number])


_UNUSED = _holders([np.empty(0)], 0)
"""The count for an array that only the pool holds. Measured: it depends on the interpreter."""


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
