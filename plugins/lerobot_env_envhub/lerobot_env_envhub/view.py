"""A vector environment as LeRobot's loop reads it: raw observations by LeRobot's keys."""

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorWrapper
from gymnasium.vector.utils import batch_space

from envhub.observations import Feature, features

_IMAGES = "observation.images."
_KEYS = {
    "observation.image": ("pixels",),
    "observation.state": ("agent_pos",),
    "observation.environment_state": ("environment_state",),
}
_NEW_ROLLOUT = "lerobot_new_rollout"
"""The option of LeRobot's loop by which a reset begins an episode that counts."""


class LeRobotView(VectorWrapper[Any, Any, Any, Any, Any]):
    """An env of EnvHub whose observations `preprocess_observation` of LeRobot knows.

    Episode k of a task starts from its stored state k, whatever the number of envs: the states of
    resets that LeRobot's loop throws away do not count.
    """

    def __init__(self, env: Any, fps: int) -> None:
        """Wrap an env; its process is not started for that.

        Args:
            env: Made by `envhub.make_env` with `format="lerobot"`.
            fps: Of videos, if the env does not say.
        """
        super().__init__(env)
        self._fps = fps
        self._paths: list[tuple[tuple[str, ...], tuple[str, ...]]] | None = None
        self._rollouts = 0

    @property
    def unwrapped(self) -> Any:
        """This env: LeRobot reads the metadata of the unwrapped one."""
        return self

    @property  # type: ignore[misc]
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The env's metadata, and the frames per second of its videos."""
        return {"render_fps": self._fps, **self.env.metadata}

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a LeRobot policy is shown, by LeRobot's names."""
        return features(self.env.single_observation_space)

    @property  # type: ignore[misc]
    def single_observation_space(self) -> Any:  # type: ignore[override]
        """The space of one env's observations."""
        return _space_of(self._rearrange(_tree(self.env.single_observation_space)))

    @property  # type: ignore[misc]
    def observation_space(self) -> Any:  # type: ignore[override]
        """The space of the observations of all envs."""
        return batch_space(self.single_observation_space, self.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reset the envs."""
        if (options or {}).get(_NEW_ROLLOUT):
            self._begin_rollout()
        observation, info = self.env.reset(seed=seed, options=options)
        return self._rearrange(observation), info

    def step(self, actions: Any) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """Step the envs."""
        observation, *outcome = self.env.step(actions)
        return (self._rearrange(observation), *outcome)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each env, or read an attribute."""
        return self._lazy.call(name, *args, **kwargs)  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each env."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of all envs."""
        self._lazy.set_attr(name, values)

    @property
    def _lazy(self) -> Any:
        return self.env

    def _begin_rollout(self) -> None:
        """Set the stored states of the episodes that count now, if the task has any."""
        first, self._rollouts = self._rollouts * self.num_envs, self._rollouts + 1
        try:
            self.call("init_state_id")
        except AttributeError:
            return
        self.set_attr("init_state_id", [first + row for row in range(self.num_envs)])

    def _rearrange(self, observation: Any) -> dict[str, Any]:
        """Nest the leaves of an observation as LeRobot's loop expects them."""
        if self._paths is None:
            named = self.features
            self._paths = [(_split(each.source), _key_of(each.name)) for each in named]
        nested: dict[str, Any] = {}
        for source, (*outer, last) in self._paths:
            part = observation
            for key in source:
                part = part[key]
            place = nested
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = part
        return nested


def _split(source: str) -> tuple[str, ...]:
    return tuple(source.split("/")) if source else ()


def _key_of(name: str) -> tuple[str, ...]:
    """Return the keys from which LeRobot's loop makes a feature of that name."""
    if name in _KEYS:
        return _KEYS[name]
    if name.startswith(_IMAGES):
        return ("pixels", name.removeprefix(_IMAGES))
    return tuple(name.removeprefix("observation.").split("."))


def _tree(space: Any) -> Any:
    return {key: _tree(part) for key, part in space.items()} if _is_dict(space) else space


def _is_dict(space: Any) -> bool:
    return isinstance(space, spaces.Dict)


def _space_of(tree: Any) -> Any:
    if not isinstance(tree, Mapping):
        return tree
    return spaces.Dict({key: _space_of(part) for key, part in tree.items()})
