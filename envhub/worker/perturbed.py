"""An env that perturbations change. Runs in the worker, with the code of their plugins.

`docs/perturbations.md` says what a perturbation may have and when it is called. Every random number
is drawn from a generator made of the episode, the perturbation's name, and the step: so that a
picture is the same whoever looks at it, and whatever was looked at before.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from envhub.declarations import MAX_DESCRIPTION, Perturbation, Task
from envhub.errors import ContractError
from envhub.loader import load_object
from envhub.plugins import Plugins
from envhub.values import has_surrogate
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import AnySpace, leaf_keys, leaves
from envhub.wire.values import Array

_BEGIN, _PICTURE, _ACTION, _INSTRUCTION = range(4)
_CHANNELS = (1, 3, 4)


class Scene:
    """What a perturbation sees of an episode that begins, and may change."""

    def __init__(self, env: AnyEnv, task: Task, rng: np.random.Generator) -> None:
        self.task = task
        self.rng = rng
        """Of this perturbation, for what holds throughout the episode."""
        self.action_space = env.action_space
        self._env = env
        self._kept: list[tuple[Array, Array]] = []

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data of the env, which is reset."""
        model, data = self._env.get_wrapper_attr("mujoco")()
        return model, data

    def changing(self, array: Array) -> Array:
        """Return an array of the model that may be changed; the next reset finds it as it was."""
        self._kept.append((array, array.copy()))
        return array

    def restore(self) -> None:
        """Undo the changes."""
        for array, before in reversed(self._kept):
            array[...] = before
        self._kept.clear()


class PerturbedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Applies perturbations in the order of their names."""

    def __init__(
        self, env: AnyEnv, task: Task, declared: Sequence[Perturbation], made: Sequence[Any]
    ) -> None:
        """Wrap an env.

        Raises:
            ContractError: The env lacks what a perturbation needs.
        """
        super().__init__(env)
        self._task = task
        self._each = [*zip(declared, made, strict=True)]
        self._pictures = _pictures_of(env.observation_space)
        self.observing: Any = frozenset(leaf.path for leaf in leaves(env.observation_space))
        self.index = 0
        """That of the next episode among those of its task."""
        self._scenes: list[Scene] = []
        self._key: tuple[int, ...] = ()
        self._step = 0
        for one in declared:
            _check_needs(env, one, pictures=bool(self._pictures))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        """Reset the env, change its scene, and look again where that is seen."""
        self._restore()
        observation, info = self.env.reset(seed=seed, options=options)
        task = int.from_bytes(hashlib.sha256(self._task.name.encode()).digest()[:8])
        self._key, self._step = (seed or 0, task, self.index), 0
        for one, made in self._each:
            if hasattr(made, "begin"):
                scene = Scene(self.env, self._task, self._rng(one.name, _BEGIN))
                self._scenes.append(scene)
                made.begin(scene)
        return self._show(self._look_again(observation)), info

    def step(self, action: Any) -> Any:
        """Take a step with the perturbed action."""
        for one, made in self._each:
            if hasattr(made, "action"):
                action = self._act(one.name, made, action)
        self._step += 1
        observation, *rest = self.env.step(action)
        return (self._show(observation), *rest)

    def render(self) -> Any:
        """Draw what the policy would see."""
        frame = self.env.render()
        if isinstance(frame, np.ndarray) and _is_picture(frame.dtype, frame.shape):
            return self._picture(next(iter(self._pictures), ""), frame)
        return frame

    def close(self) -> None:
        """Undo the changes, and close the env."""
        self._restore()
        self.env.close()

    def instruction(self, text: str) -> str:
        """Return the instruction of the episode that a reset began, in other words."""
        for one, made in self._each:
            if not hasattr(made, "instruction"):
                continue
            text = made.instruction(text, self._rng(one.name, _INSTRUCTION))
            good = isinstance(text, str) and text.strip() and not has_surrogate(text)
            if not good or len(text) > MAX_DESCRIPTION:
                raise ContractError(
                    f"Perturbation {one.name!r}: an instruction is a text of 1 to "
                    f"{MAX_DESCRIPTION:,} characters."
                )
        return text

    def _look_again(self, observation: Any) -> Any:
        """Return the first observation of the scene as it is now; of pictures only those change."""
        looking = [one for one, _ in self._each if "observe" in one.needs]
        if any("scene" in one.changes for one in looking):
            return self.env.get_wrapper_attr("observe")()
        looked_at = [keys for path, keys in self._pictures.items() if path in self.observing]
        if not looking or not looked_at:
            return observation
        seen = self.env.get_wrapper_attr("observe")()
        for keys in looked_at:
            observation = _with(observation, keys, _at(seen, keys))
        return observation

    def _show(self, observation: Any) -> Any:
        for path, keys in self._pictures.items():
            if path in self.observing and any(hasattr(made, "picture") for _, made in self._each):
                frame = np.asarray(_at(observation, keys))
                observation = _with(observation, keys, self._picture(path, frame))
        return observation

    def _picture(self, path: str, frame: Array) -> Array:
        planes = frame.shape[-1] not in _CHANNELS  # channels come first
        shown = np.moveaxis(frame, 0, -1) if planes else frame
        for one, made in self._each:
            if hasattr(made, "picture"):
                found = made.picture(shown, self._rng(one.name, _PICTURE, path))
                shown = _same(one.name, "picture", found, shown)
        return np.ascontiguousarray(np.moveaxis(shown, -1, 0) if planes else shown)

    def _act(self, name: str, made: Any, action: Any) -> Any:
        before = np.asarray(action)
        found = _same(name, "action", made.action(before, self._rng(name, _ACTION)), before)
        return found if isinstance(action, np.ndarray) else type(action)(found.item())

    def _rng(self, name: str, what: int, path: str = "") -> np.random.Generator:
        named = int.from_bytes(hashlib.sha256(f"{name}\0{path}".encode()).digest()[:8])
        return np.random.default_rng([*self._key, named, what, self._step])

    def _restore(self) -> None:
        for scene in reversed(self._scenes):
            scene.restore()
        self._scenes.clear()


class LoadedPerturbations:
    """The perturbations of a worker, which every env that it makes gets."""

    def __init__(self, plugins: Plugins, strengths: Mapping[str, Any]) -> None:
        """Load their code; strengths are by name."""
        found = {name: plugins.perturbation(name) for name in sorted(strengths)}
        self.declared = tuple(declared for declared, _ in found.values())
        self.retell = any("instruction" in one.changes for one in self.declared)
        """Whether one words the instruction otherwise."""
        self._makers: list[tuple[Any, Any]] = [
            (load_object(declared.make, module, confined=False), strengths[name])
            for name, (declared, module) in found.items()
        ]

    def wrap(self, env: AnyEnv, task: Task) -> PerturbedEnv | None:
        """Return the env with the perturbations; None if there are none."""
        if not self.declared:
            return None
        made = [make(strength) for make, strength in self._makers]
        return PerturbedEnv(env, task, self.declared, made)


def _check_needs(env: AnyEnv, one: Perturbation, *, pictures: bool) -> None:
    for name in one.needs:
        if not (env.has_wrapper_attr(name) and callable(env.get_wrapper_attr(name))):
            raise ContractError(
                f"--perturb {one.name} needs an env with a method {name}(), and this one has none. "
                "docs/perturbations.md says what its author adds."
            )
    if one.changes == ("pictures",) and not pictures:
        raise ContractError(
            f"--perturb {one.name} changes pictures, and the observations of this env have none."
        )


def _pictures_of(space: AnySpace) -> dict[str, tuple[str | int, ...]]:
    keys = leaf_keys(space)
    return {
        leaf.path: keys[leaf.path]
        for leaf in leaves(space)
        if leaf.dtype is not None and _is_picture(leaf.dtype, leaf.shape)
    }


def _is_picture(dtype: Any, shape: tuple[int, ...]) -> bool:
    return dtype == np.uint8 and len(shape) == 3 and bool({shape[0], shape[-1]} & set(_CHANNELS))


def _at(observation: Any, keys: tuple[str | int, ...]) -> Any:
    for key in keys:
        observation = observation[key]
    return observation


def _with(observation: Any, keys: tuple[str | int, ...], value: Any) -> Any:
    """Return an observation with another value in a place; the env's own stays as it is."""
    if not keys:
        return value
    first, *rest = keys
    inner = _with(observation[first], tuple(rest), value)
    if isinstance(observation, tuple):
        assert isinstance(first, int)
        return (*observation[:first], inner, *observation[first + 1 :])
    return {**observation, first: inner}


def _same(name: str, what: str, found: Any, before: Array) -> Array:
    """Return what a perturbation made, if it is like what it was given."""
    if (
        not isinstance(found, np.ndarray)
        or found.dtype != before.dtype
        or found.shape != before.shape
    ):
        given = f"{before.dtype} of shape {before.shape}"
        shape = f" of shape {found.shape}" if isinstance(found, np.ndarray) else ""
        kind = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
        raise ContractError(f"Perturbation {name!r} made {kind}{shape} of the {what}, {given}.")
    return found
