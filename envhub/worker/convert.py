"""A benchmark's own conversion of observations to LeRobot's names. Runs in the worker only.

The benchmark's function takes one raw observation and returns a flat mapping of names such as
`observation.state` and `observation.images.front` to arrays; images are uint8, height by width by
channels. What a LeRobot policy takes (tensors, channels first) is made of that by our own code,
where the policy runs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from envhub.errors import ContractError
from envhub.wire.spaces import AnySpace
from envhub.wire.values import DTYPES, Array

_PREFIX = "observation."


class Converter:
    """The conversion of one env's observations."""

    def __init__(self, target: str, function: Any, raw: AnySpace) -> None:
        """Find out what the function makes of an observation.

        Args:
            target: What the benchmark calls the function.
            function: The function.
            raw: The space of the env's observations.

        Raises:
            ContractError: It returns something that no LeRobot policy takes.
        """
        if not callable(function):
            raise ContractError(f"{target} is not a function.")
        self._target = target
        self._function: Callable[[Any], Any] = function
        sample = self.convert(_blank(raw))
        self.space = spaces.Dict({name: _space_of(array) for name, array in sample.items()})

    def convert(self, observation: Any) -> dict[str, Array]:
        """Convert one observation."""
        converted = self._function(observation)
        if not isinstance(converted, Mapping) or not converted:
            kind = type(converted).__name__
            raise ContractError(f"{self._target} must return a mapping of names, found {kind}.")
        arrays: dict[str, Array] = {}
        for name, value in converted.items():
            if not isinstance(name, str) or not name.startswith(_PREFIX) or "/" in name:
                problem = f"{self._target} returned the name {name!r}; names start with {_PREFIX}"
                raise ContractError(f"{problem} and hold no slash.")
            arrays[name] = np.asarray(value)
            if arrays[name].dtype.newbyteorder("<").str not in DTYPES:
                problem = f"{self._target} returned {name} of dtype {arrays[name].dtype}"
                raise ContractError(f"{problem}, which is not a number.")
        return arrays


def _space_of(array: Array) -> AnySpace:
    if array.dtype == np.bool_:
        return spaces.Box(0, 1, array.shape, np.int8)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return spaces.Box(limits.min, limits.max, array.shape, array.dtype.type)
    return spaces.Box(-np.inf, np.inf, array.shape, array.dtype.type)


def _blank(space: AnySpace) -> Any:
    """An observation of zeros, and of samples where no zeros are possible."""
    match space:
        case spaces.Dict():
            return {key: _blank(part) for key, part in space.items()}
        case spaces.Tuple():
            return tuple(_blank(part) for part in space.spaces)
        case spaces.Box() | spaces.MultiBinary() | spaces.MultiDiscrete():
            return np.zeros(space.shape or (), space.dtype)
        case _:
            return space.sample()
