"""Putting observations into shared memory, leaf by leaf. Lives in the worker."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from envhub.errors import ContractError
from envhub.worker.spaces import AnySpace, Leaf, leaf_keys, leaves

Array = np.ndarray[Any, Any]


class Writer:
    """Copies one leaf of an observation to its place."""

    __slots__ = ("_dtype", "_keys", "_shape", "_target", "leaf")

    def __init__(self, leaf: Leaf, keys: tuple[str | int, ...], target: Array | None) -> None:
        self.leaf = leaf
        self._keys = keys
        self._target = target
        self._dtype = leaf.dtype
        self._shape = leaf.shape

    def write(self, observation: Any, texts: dict[str, str]) -> None:
        """Copy the leaf; a text goes into `texts`."""
        value = observation
        try:
            for key in self._keys:
                value = value[key]
        except (KeyError, IndexError, TypeError) as exc:
            raise ContractError(f"{self._name()} is missing: {type(exc).__name__}: {exc}.") from exc
        if self._target is None:
            if not isinstance(value, str):
                kind = type(value).__name__
                raise ContractError(f"{self._name()} is of type {kind}; its space says text.")
            texts[self.leaf.path] = str.__str__(value)
            return
        if (
            type(value) is not np.ndarray
            or value.dtype is not self._dtype
            or value.shape != self._shape
        ):
            value = self._cast(value)
        self._target[...] = value

    def _cast(self, value: Any) -> Array:
        """What Gymnasium's own vector environments would take too."""
        array = np.asarray(value)
        if array.shape != self._shape:
            found = f"{self._name()} has shape {array.shape}"
            raise ContractError(f"{found}; its space says {self._shape}.")
        if not np.can_cast(array.dtype, np.dtype(self._dtype), "same_kind"):
            found = f"{self._name()} has dtype {array.dtype}"
            raise ContractError(f"{found}; its space says {self._dtype}.")
        return array

    def _name(self) -> str:
        return f"Observation {self.leaf.path!r}" if self.leaf.path else "The observation"


def writers(space: AnySpace, views: Mapping[str, Array], row: int) -> list[Writer]:
    """A writer for each leaf of a space, into one row."""
    made: list[Writer] = []
    keys = leaf_keys(space)
    for leaf in leaves(space):
        target = None if leaf.dtype is None else views[leaf.path][row, ...]
        made.append(Writer(leaf, keys[leaf.path], target))
    return made
