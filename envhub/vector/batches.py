"""Copying observations out of shared memory, row by row as they come, into reused arrays."""

import sys
from collections.abc import Mapping

import numpy as np

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
