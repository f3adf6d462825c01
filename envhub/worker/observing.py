"""Telling an env which parts of the next observation anybody will read."""

from typing import Any

import gymnasium as gym
from gymnasium import wrappers

from envhub.envs.normalize import AnyEnv

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
