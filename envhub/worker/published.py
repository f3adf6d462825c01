"""Benchmarks of the published contract: env files with a function `make_env`.

Runs in the worker.
"""

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from envhub.errors import ContractError
from envhub.types import Benchmark, Task, Value
from envhub.wire.spaces import AnySpace
from envhub.worker.convert import Converter
from envhub.worker.envcalls import outcome_of
from envhub.worker.normalize import AnyEnv, AnyVectorEnv, Entry, arrange, vectorize


class PublishedBenchmark:
    """A benchmark of the published contract: `make_env(n_envs=1, use_async_envs=False[, cfg])`."""

    def __init__(
        self,
        make_env: Callable[..., object],
        name: str,
        env_args: Mapping[str, Value],
        horizon: int | None,
    ) -> None:
        self._make_env = make_env
        self._name = name
        self._env_args = dict(env_args)
        self._entries: dict[tuple[str, str], Entry] = {}
        self._ready: dict[tuple[str, str], AnyEnv] = {}
        self._keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.benchmark = self._describe(horizon)

    def make(self, suite: str, task: Task) -> AnyEnv:
        """Return an env of a task: one that is made and unused, else from another `make_env`."""
        key = self._keys[suite, task.name]
        if key in self._ready:
            return self._ready.pop(key)
        if key not in self._entries:
            self._entries = self._call_make_env()
        return self._take(key)

    def spaces(self, task: Task) -> None:
        """Return None: only an env of the published contract knows its spaces."""

    def converter(self, raw: AnySpace) -> Converter:
        """The published contract knows no conversion of the benchmark's own."""
        raise ContractError("The benchmark declares no conversion to LeRobot's format.")

    def _describe(self, horizon: int | None) -> Benchmark:
        self._entries = self._call_make_env()
        keys = list(self._entries)
        suites: dict[str, list[Task]] = {}
        for key in keys:
            suite, short = key
            # Task names are unique in a suite for the published contract, in the benchmark for us.
            shared = sum(task == short for _, task in keys) > 1
            name = f"{suite}.{short}" if shared else short
            env = self._ready[key] = self._take(key)
            suites.setdefault(suite, []).append(_task_of(env, name, horizon))
            self._keys[suite, name] = key
        return Benchmark(self._name, ":make_env", {s: tuple(tasks) for s, tasks in suites.items()})

    def _call_make_env(self) -> dict[tuple[str, str], Entry]:
        returned = self._make_env(**_arguments(self._make_env, self._env_args))
        arranged = arrange(returned, name=self._name)
        return {(s, t): entry for s, tasks in arranged.items() for t, entry in tasks.items()}

    def _take(self, key: tuple[str, str]) -> AnyEnv:
        """Return the env of an entry; an entry that is an env itself can be used only once."""
        entry = self._entries[key]
        if isinstance(entry, gym.Env | VectorEnv):
            del self._entries[key]
        if isinstance(entry, gym.Env):
            return entry
        vector = vectorize(entry, 1, key=key)
        # Unwrapped, so that the env never resets itself: the engine decides when to reset.
        return vector.envs[0] if type(vector) is SyncVectorEnv else EnvOfVector(vector)


class EnvOfVector(gym.Env[Any, Any]):
    """The only env of a vector environment, as a plain Env."""

    def __init__(self, vector: AnyVectorEnv) -> None:
        self._vector = vector
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self.metadata = dict(vector.metadata)
        self.render_mode = vector.render_mode
        self.spec = vector.spec

    @property
    def np_random_seed(self) -> int:
        """The seed of the env's random generator."""
        seeds: Any = self._vector.np_random_seed
        return cast("int", seeds[0] if isinstance(seeds, tuple) else seeds)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the vector environment."""
        observations, infos = self._vector.reset(seed=seed, options=options)
        return self._first(observations), _first_info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the vector environment.

        The last observation of an episode is that of its last step, also if the vector environment
        returns that of the next reset.
        """
        space = self.action_space
        batch = concatenate(space, [action], cast("Any", create_empty_array(space, 1)))
        observations, rewards, terminated, truncated, infos = self._vector.step(batch)
        info = _first_info(infos)
        observation = self._first(observations)
        outcome = outcome_of(rewards[0], terminated[0], truncated[0])
        mode = self._vector.metadata.get("autoreset_mode")
        if any(outcome[1:]) and mode == AutoresetMode.SAME_STEP:
            observation, info = info.get("final_obs", observation), info.get("final_info", info)
        return observation, *outcome, info

    def render(self) -> Any:
        """Render a frame of the env."""
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
        """Return an attribute of this env, of the vector environment, or of its env."""
        for owner in (self, *self._layers()):
            if hasattr(owner, name):
                return getattr(owner, name)
        inner: Any = self._vector.unwrapped
        # Checked first: an AsyncVectorEnv closes when it is asked for an attribute its envs lack.
        if not hasattr(inner, "call") or not inner.call("has_wrapper_attr", name)[0]:
            raise AttributeError(f"{self._vector} has no attribute {name!r}")
        return inner.get_attr(name)[0]

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the env, or of a vector environment that holds no envs."""
        inner: Any = self._vector.unwrapped
        if hasattr(inner, "set_attr"):
            inner.set_attr(name, [value])
        else:
            setattr(inner, name, value)
        return True

    def _layers(self) -> list[AnyVectorEnv]:
        """Return the vector environment and the ones it wraps, from the outside in."""
        layers = [self._vector]
        while isinstance(layers[-1], VectorWrapper):
            layers.append(layers[-1].env)
        return layers

    def _first(self, observations: Any) -> Any:
        return next(iter(iterate(self._vector.observation_space, observations)))


def _arguments(make_env: Callable[..., object], env_args: Mapping[str, Value]) -> dict[str, Any]:
    """Return the keyword arguments for a `make_env`: the contract's, and the user's."""
    for name in ("n_envs", "use_async_envs"):
        if name in env_args:
            raise ContractError(f"EnvHub sets {name} itself: leave that --env-arg out.")
    parameters = inspect.signature(make_env).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    offered: dict[str, Any] = {"n_envs": 1, "use_async_envs": False, **env_args}
    chosen = {name: v for name, v in offered.items() if takes_all or name in parameters}
    left = [name for name in env_args if name not in chosen]
    cfg = parameters.get("cfg")
    if cfg is not None and (env_args or cfg.default is cfg.empty):
        chosen["cfg"] = SimpleNamespace(**env_args)
    elif left:
        raise ContractError(
            f"make_env{inspect.signature(make_env)} takes no argument {left[0]!r}: "
            "leave that --env-arg out."
        )
    return chosen


def _task_of(env: AnyEnv, name: str, horizon: int | None) -> Task:
    candidates = (_attribute(env, "task_description"), _attribute(env, "task"))
    # Only text: the repr of an object would differ from run to run.
    description = next((text for text in candidates if isinstance(text, str) and text), name)
    limit = horizon or _attribute(env, "_max_episode_steps")
    if limit is None and env.spec is not None:
        limit = env.spec.max_episode_steps
    if not isinstance(limit, int | np.integer) or limit < 1:
        raise ContractError(
            f"Task {name!r} has no horizon: give --max-steps, or set _max_episode_steps on the env."
        )
    return Task(name=name, description=description, horizon=int(limit), success="ever")


def _attribute(env: AnyEnv, name: str) -> Any:
    """Return an attribute of the env or of an env it wraps: wrappers do not forward them."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _first_info(infos: dict[str, Any]) -> dict[str, Any]:
    """Extract the info of the only env; keys with a leading underscore are Gymnasium's masks."""
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
