"""A VectorEnv of one as a plain Env, for env files that return vector environments."""

from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from envhub.envs.normalize import AnyVectorEnv


class EnvOfVector(gym.Env[Any, Any]):
    """The only env of a vector environment."""

    def __init__(self, vector: AnyVectorEnv) -> None:
        self._vector = vector
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self.metadata = dict(vector.metadata)
        self.render_mode = vector.render_mode
        self.spec = vector.spec

    @property
    def np_random_seed(self) -> int:
        """The seed of the only env."""
        seeds: Any = self._vector.np_random_seed
        return cast("int", seeds[0] if isinstance(seeds, tuple) else seeds)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the vector environment."""
        observations, infos = self._vector.reset(seed=seed, options=options)
        return self._first(observations), _first_info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step it; the last observation of an episode is the real one, not the next reset's."""
        space = self.action_space
        batch = concatenate(space, [action], cast("Any", create_empty_array(space, 1)))
        observations, rewards, terminated, truncated, infos = self._vector.step(batch)
        info = _first_info(infos)
        observation = self._first(observations)
        ended = bool(terminated[0]) or bool(truncated[0])
        if ended and self._vector.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP:
            observation, info = info.get("final_obs", observation), info.get("final_info", info)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Any:
        """The frame of the only env."""
        frames = self._vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the vector environment."""
        self._vector.close()

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this env, the vector environment or its env has an attribute."""
        try:
            self.get_wrapper_attr(name)
        except AttributeError:
            return False
        return True

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of this env, of the vector environment, or of its env."""
        for owner in (self, *self._layers()):
            if hasattr(owner, name):
                return getattr(owner, name)
        inner: Any = self._vector.unwrapped
        # Asked first, because an AsyncVectorEnv ends when it is asked for what its envs lack.
        if not hasattr(inner, "call") or not inner.call("has_wrapper_attr", name)[0]:
            raise AttributeError(f"{self._vector} has no attribute {name!r}")
        return inner.get_attr(name)[0]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the only env, or of a vector environment that holds none."""
        inner: Any = self._vector.unwrapped
        if hasattr(inner, "set_attr"):
            inner.set_attr(name, [value])
        else:
            setattr(inner, name, value)
        return True

    def _layers(self) -> list[AnyVectorEnv]:
        """The vector environment, and what it wraps."""
        found = [self._vector]
        while isinstance(found[-1], VectorWrapper):
            found.append(found[-1].env)
        return found

    def _first(self, observations: Any) -> Any:
        return next(iter(iterate(self._vector.observation_space, observations)))


def _first_info(infos: dict[str, Any]) -> dict[str, Any]:
    """The only env's info; keys with a leading underscore are Gymnasium's masks."""
    info: dict[str, Any] = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if key.startswith("_") and key[1:] in infos:
            continue
        if isinstance(mask, np.ndarray) and not mask[0]:
            continue
        if isinstance(value, dict):
            info[key] = _first_info(value)
        elif isinstance(value, np.ndarray | list | tuple) and len(value) == 1:
            info[key] = value[0]
        else:
            info[key] = value
    return info
