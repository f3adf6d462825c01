"""Reading observations leaf by leaf, and putting them into shared memory. Lives in the worker."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from envhub.errors import ContractError
from envhub.wire.spaces import AnySpace, Leaf, leaf_keys, leaves
from envhub.wire.values import Array
from envhub.worker.normalize import AnyEnv


class Reader:
    """Finds one leaf in observations."""

    __slots__ = ("_dtype", "_keys", "_shape", "leaf")

    def __init__(self, leaf: Leaf, keys: tuple[str | int, ...]) -> None:
        self.leaf = leaf
        self._keys = keys
        self._dtype = leaf.dtype
        self._shape = leaf.shape

    def read(self, observation: Any) -> Any:
        """The leaf as it is: an array of the space's shape that its dtype can take, or a text.

        Raises:
            ContractError: It is missing, or something else.
        """
        value = observation
        try:
            for key in self._keys:
                value = value[key]
        except (KeyError, IndexError, TypeError) as exc:
            raise ContractError(f"{self._name()} is missing: {type(exc).__name__}: {exc}.") from exc
        if self._dtype is None:
            if not isinstance(value, str):
                kind = type(value).__name__
                raise ContractError(f"{self._name()} is of type {kind}; its space says text.")
            return str.__str__(value)
        if (
            type(value) is not np.ndarray
            or value.dtype is not self._dtype
            or value.shape != self._shape
        ):
            return self._cast(value)
        return value

    def row(self, observation: Any) -> Any:
        """The leaf as a batch of one, which shares nothing with the observation."""
        value = self.read(observation)
        return [value] if self._dtype is None else value.astype(self._dtype)[None]

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


class Writer(Reader):
    """Copies one leaf of an observation to its place."""

    __slots__ = ("_target",)

    def __init__(self, leaf: Leaf, keys: tuple[str | int, ...], target: Array | None) -> None:
        super().__init__(leaf, keys)
        self._target = target

    def write(self, observation: Any, texts: dict[str, str]) -> None:
        """Copy the leaf; a text goes into `texts`."""
        if self._target is None:
            texts[self.leaf.path] = self.read(observation)
        else:
            self._target[...] = self.read(observation)


def readers(space: AnySpace) -> list[Reader]:
    """A reader for each leaf of a space."""
    keys = leaf_keys(space)
    return [Reader(leaf, keys[leaf.path]) for leaf in leaves(space)]


def writers(space: AnySpace, views: Mapping[str, Array], row: int) -> list[Writer]:
    """A writer for each leaf of a space, into one row."""
    made: list[Writer] = []
    keys = leaf_keys(space)
    for leaf in leaves(space):
        target = None if leaf.dtype is None else views[leaf.path][row, ...]
        made.append(Writer(leaf, keys[leaf.path], target))
    return made


# Gymnasium's wrappers that hand observations through as they are.
_PASS_THROUGH = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
)


def observers(env: AnyEnv) -> tuple[Any, ...]:
    """The env and the wrappers around it that take `observing`.

    None at all if the env does not declare it, or if a wrapper that does not either stands around
    it: that one might look at what would then be blank.
    """
    found: list[Any] = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if _declares(layer):
            found.append(layer)
        elif type(layer) not in _PASS_THROUGH:
            return ()
        layer = layer.env
    return (*found, layer) if _declares(layer) else ()


def _declares(layer: Any) -> bool:
    """Whether `observing` is there, or announced by an annotation."""
    return hasattr(layer, "observing") or any(
        "observing" in vars(base).get("__annotations__", {}) for base in type(layer).__mro__
    )
