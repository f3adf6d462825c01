"""Reading observations leaf by leaf, and writing them into shared memory. Runs in the worker."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from envhub.errors import ContractError
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import AnySpace, Leaf, leaf_keys, leaves
from envhub.wire.values import Array

_PASS_THROUGH = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
)
"""Gymnasium's wrappers that pass observations on unchanged."""


class Reader:
    """Reads one leaf of observations."""

    __slots__ = ("_dtype", "_keys", "_shape", "leaf")

    def __init__(self, leaf: Leaf, keys: tuple[str | int, ...]) -> None:
        self.leaf = leaf
        self._keys = keys
        self._dtype = leaf.dtype
        self._shape = leaf.shape

    def read(self, observation: Any) -> Any:
        """Return the leaf: a text, or an array of the space's shape that casts to its dtype.

        Raises:
            ContractError: The leaf is missing, or does not fit its space.
        """
        value = observation
        try:
            for key in self._keys:
                value = value[key]
        except (KeyError, IndexError, TypeError) as exc:
            raise ContractError(f"{self._name()} is missing: {type(exc).__name__}: {exc}.") from exc
        if self._dtype is None:
            if not isinstance(value, str):
                name = type(value).__name__
                raise ContractError(f"{self._name()} is of type {name}; its space says text.")
            return str.__str__(value)
        if (
            type(value) is not np.ndarray
            or value.dtype is not self._dtype
            or value.shape != self._shape
        ):
            return self._cast(value)
        return value

    def row(self, observation: Any) -> Any:
        """Return the leaf as a batch of one row, which shares no memory with the observation."""
        value = self.read(observation)
        return [value] if self._dtype is None else value.astype(self._dtype)[None]

    def canonical(self, observation: Any) -> Any:
        """Return the leaf in the type of its space, as a digest has it; None if it does not fit."""
        try:
            value = self.read(observation)
        except ContractError:  # for whoever reads the leaf to complain of
            return None
        return value if self._dtype is None else value.astype(self._dtype, copy=False)

    def _cast(self, value: Any) -> Array:
        """Convert a value to an array, if Gymnasium's own vector environments would take it too."""
        array = np.asarray(value)
        if array.shape != self._shape:
            problem = f"{self._name()} has shape {array.shape}"
            raise ContractError(f"{problem}; its space says {self._shape}.")
        if not np.can_cast(array.dtype, np.dtype(self._dtype), "same_kind"):
            problem = f"{self._name()} has dtype {array.dtype}"
            raise ContractError(f"{problem}; its space says {self._dtype}.")
        return array

    def _name(self) -> str:
        return f"Observation {self.leaf.path!r}" if self.leaf.path else "The observation"


class Writer(Reader):
    """Copies one leaf of observations to its place in shared memory."""

    __slots__ = ("_target",)

    def __init__(self, leaf: Leaf, keys: tuple[str | int, ...], target: Array | None) -> None:
        super().__init__(leaf, keys)
        self._target = target

    def write(self, observation: Any, texts: dict[str, str]) -> None:
        """Copy the leaf into shared memory; put a text into `texts`."""
        if self._target is None:
            texts[self.leaf.path] = self.read(observation)
        else:
            self._target[...] = self.read(observation)


def readers(space: AnySpace) -> list[Reader]:
    """Return a reader for each leaf of a space."""
    keys = leaf_keys(space)
    return [Reader(leaf, keys[leaf.path]) for leaf in leaves(space)]


def writers(space: AnySpace, views: Mapping[str, Array], row: int) -> list[Writer]:
    """Return a writer into one row for each leaf of a space."""
    result: list[Writer] = []
    keys = leaf_keys(space)
    for leaf in leaves(space):
        target = None if leaf.dtype is None else views[leaf.path][row, ...]
        result.append(Writer(leaf, keys[leaf.path], target))
    return result


def observers(env: AnyEnv) -> tuple[Any, ...]:
    """Return the env and the wrappers around it that declare `observing`.

    The result is empty if the env does not declare it, or if a wrapper might read leaves that would
    be blank then: one that neither declares `observing` nor passes observations on unchanged.
    """
    declaring: list[Any] = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if _declares(layer):
            declaring.append(layer)
        elif type(layer) not in _PASS_THROUGH:
            return ()
        layer = layer.env
    return (*declaring, layer) if _declares(layer) else ()


def _declares(layer: Any) -> bool:
    """Whether a layer has the attribute `observing`, or an annotation for it."""
    return hasattr(layer, "observing") or any(
        "observing" in vars(base).get("__annotations__", {}) for base in type(layer).__mro__
    )
