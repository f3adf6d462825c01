"""Copying observations out of shared memory, row by row as they come, into arrays used again."""

import sys
from collections.abc import Mapping

import numpy as np

from envhub.wire.values import Array

_LARGE = 2**14
"""Bytes of a row from which on it is worth copying it while other envs still compute."""

_KEPT = 4
"""Arrays that a pool keeps at most."""


class Batches:
    """Makes copies of views whose rows are filled one after the other."""

    def __init__(self, views: Mapping[str, Array]) -> None:
        self._views = views
        self._shelves = {
            path: ArrayPool(view)
            for path, view in views.items()
            if view[0].nbytes >= _LARGE and view.dtype != np.bool_
        }
        self._batch: dict[str, Array] = {}

    def begin(self) -> None:
        """Prepare a new batch."""
        self._batch = {path: pool.lend() for path, pool in self._shelves.items()}

    def copy_row(self, row: int) -> None:
        """A row is complete."""
        for path, array in self._batch.items():
            array[row] = self._views[path][row]

    def finish(self) -> dict[str, Array]:
        """The batch, all of whose rows were copied."""
        batch, self._batch = self._batch, {}
        for path, view in self._views.items():
            if path not in batch:
                batch[path] = copied(view)
        return batch


def copied(view: Array) -> Array:
    """A copy; a byte of a foreign bool that is neither 0 nor 1 is made one of them."""
    return np.asarray(view.view(np.uint8) != 0) if view.dtype == np.bool_ else view.copy()


class ArrayPool:
    """Arrays of one kind, lent out, and lent again when nobody holds them any more.

    New memory costs a page fault every 4 KiB, which takes longer than the copy into it.
    """

    def __init__(self, like: Array) -> None:
        self._like = like
        self._arrays: list[Array] = []
        self._next = 0

    def lend(self) -> Array:
        """An array whose values may be anything."""
        for number in range(len(self._arrays)):
            if _holders(self._arrays, number) == _UNUSED:
                return self._arrays[number].view()
        array = np.empty_like(self._like)
        if len(self._arrays) < _KEPT:
            self._arrays.append(array)
        else:  # whoever keeps many keeps them for long: make room for newer ones
            self._arrays[self._next] = array
            self._next = (self._next + 1) % _KEPT
        return array.view()


def _holders(arrays: list[Array], number: int) -> int:
    """References to an array; every view of it, and whatever shares its memory, has one."""
    return sys.getrefcount(arrays[number])


_UNUSED = _holders([np.empty(0)], 0)
