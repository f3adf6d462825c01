"""Benchmarks of the published contract: env files with a function `make_env`.

Runs in the worker.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from envhub.conventions import HZ, check_conventions
from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError
from envhub.options import Argument
from envhub.wire.messages import Failed
from envhub.wire.normalize import AnyEnv, AnyVectorEnv, Entry, arrange, vectorize
from envhub.wire.spaces import AnySpace
from envhub.worker.arguments import call_make_env
from envhub.worker.attributes import (
    conventions_of,
    horizon_of,
    instruction_before_reset,
    instruction_of,
)
from envhub.worker.convert import Converter
from envhub.worker.envcalls import step_result_of
from envhub.worker.replies import failed

Key = tuple[str, str]
"""The suite and the task, as the file names them."""

_UNKNOWN_HORIZON = 1
"""For tasks that are not played before the user gives a horizon, or cannot be made at all."""


class MakeEnvBenchmark:
    """A benchmark of the published contract: `make_env(n_envs=1, use_async_envs=False[, cfg])`."""

    def __init__(
        self,
        make_env: Callable[..., object],
        name: str,
        env_args: Mapping[str, Argument],
        horizon: int | None,
        *,
        declared: Benchmark | None = None,
        fatal: Collection[str] = (),
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Make the env of each task to read what it says, unless another worker has done so.

        Args:
            make_env: The function of the file.
            name: The benchmark's name.
            env_args: The user's arguments for `make_env`.
            horizon: Replaces the horizons of the envs.
            declared: What another worker has read. Then no env is made before it is opened.
            fatal: Tasks whose envs ended the processes of other workers, so they are not made.
            announce: Called with the name of each task before its env is made.
        """
        self._make_env = make_env
        self._name = name
        self._env_args = dict(env_args)
        self._horizon = horizon
        self._entries: dict[Key, Entry] = {}
        self._keys: dict[tuple[str, str], Key] = {}
        self._ready: AnyEnv | None = None
        self.broken: dict[str, Failed] = {}
        self.without_horizon: tuple[str, ...] = ()
        self._conventions: dict[str, dict[str, Any]] = {}
        self.benchmark = declared or self._describe(fatal, announce)

    def make(self, suite: str, task: Task) -> AnyEnv:
        """Return an env of a task: one that is made and unused, else from another `make_env`."""
        if self._ready is not None:
            env, self._ready = self._ready, None
            return env
        if self._keys.get((suite, task.name)) not in self._entries:
            self.close()
            self._call_make_env()
        if (suite, task.name) not in self._keys:
            raise ContractError(f"make_env returned no task {task.name!r} this time.")
        return self._take(self._keys[suite, task.name])

    def instruction(self, env: AnyEnv) -> str | None:
        """Return what the env says that is to be done; None if it does not say."""
        return instruction_of(env)

    def horizon(self, env: AnyEnv, task: Task) -> int | None:
        """Return the user's horizon, else the env's own."""
        return self._horizon or horizon_of(env)

    def close(self) -> None:
        """Close the envs that are made and unused."""
        unused = [self._ready, *self._entries.values()]
        self._ready, self._entries = None, {}
        for env in unused:
            if isinstance(env, gym.Env | VectorEnv):
                _close(env)

    def spaces(self, task: Task) -> None:
        """Return None: only an env of the published contract knows its spaces."""

    def converter(self, raw: AnySpace) -> Converter:
        """The published contract knows no conversion of the benchmark's own."""
        raise ContractError("The benchmark declares no conversion to LeRobot's format.")

    def _describe(self, fatal: Collection[str], announce: Callable[[str], None]) -> Benchmark:
        """Make the env of each task, read what it says and close it.

        Only one env exists at a time, as far as the file allows that. A task that cannot be made is
        noted, unless all tasks are like that.
        """
        self._call_make_env()
        suites: dict[str, list[Task]] = {}
        problems: list[BaseException] = []
        for (suite, name), key in self._keys.items():
            task = Task(name, name, _UNKNOWN_HORIZON, success="ever")
            if name not in fatal:
                announce(name)
                try:
                    task = self._look_at(self._take(key), name)
                except (Exception, SystemExit) as exc:
                    problems.append(exc)
                    self.broken[name] = failed(0, exc, "env")
            suites.setdefault(suite, []).append(task)
        if problems and all(name in fatal or name in self.broken for _, name in self._keys):
            raise problems[0]
        conventions = self._agreed_conventions()
        return Benchmark(
            self._name,
            ":make_env",
            {suite: tuple(tasks) for suite, tasks in suites.items()},
            control_hz=conventions.pop(HZ, 0.0),
            conventions=conventions,
        )

    def _look_at(self, env: AnyEnv, name: str) -> Task:
        """Read what an env says about its task; keep it if it is the only one, else close it."""
        description, horizon = instruction_before_reset(env), self._horizon or horizon_of(env)
        if horizon is None:
            self.without_horizon += (name,)
        declared = conventions_of(env)
        owner = f"The env of task {name!r}"
        self._conventions[name] = {} if declared is None else check_conventions(owner, declared)
        if len(self._keys) == 1:
            self._ready = env
        else:
            _close(env)
        return Task(name, description or name, horizon or _UNKNOWN_HORIZON, success="ever")

    def _agreed_conventions(self) -> dict[str, Any]:
        """Return what all envs declare.

        Raises:
            ContractError: They do not declare the same.
        """
        if not self._conventions:
            return {}
        (first, agreed), *others = self._conventions.items()
        for name, declared in others:
            if declared != agreed:
                raise ContractError(
                    f"The envs of the tasks {first!r} and {name!r} have different conventions: a "
                    "benchmark has one set of them. Declare two benchmarks."
                )
        return dict(agreed)

    def _call_make_env(self) -> None:
        returned = call_make_env(self._make_env, self._env_args)
        arranged = arrange(returned, name=self._name)
        self._entries = {(s, t): e for s, tasks in arranged.items() for t, e in tasks.items()}
        # Task names are unique in a suite for the published contract, in the benchmark for us.
        count = Counter(short for _, short in self._entries)
        self._keys = {
            (suite, f"{suite}.{short}" if count[short] > 1 else short): (suite, short)
            for suite, short in self._entries
        }

    def _take(self, key: Key) -> AnyEnv:
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
        result = step_result_of(rewards[0], terminated[0], truncated[0])
        mode = self._vector.metadata.get("autoreset_mode")
        if any(result[1:]) and mode == AutoresetMode.SAME_STEP:
            observation, info = info.get("final_obs", observation), info.get("final_info", info)
        return observation, *result, info

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


def _close(env: AnyEnv | AnyVectorEnv) -> None:
    try:
        env.close()
    except (Exception, SystemExit):  # not the fault of the task that is opened next
        traceback.print_exc()


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
