"""A loaded benchmark: what it declares, and how its envs are made. Lives in the worker."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from envhub.envs.normalize import AnyEnv, Entry, arrange, vectorize
from envhub.errors import ContractError, UnknownName
from envhub.plugins import Plugins
from envhub.types import Benchmark, FileSource, Task, Value
from envhub.worker.loader import load_file, load_object
from envhub.worker.protocol import Load
from envhub.worker.single import EnvOfVector


class Program(Protocol):
    """A benchmark whose code is loaded."""

    benchmark: Benchmark

    def make(self, suite: str, task: Task) -> AnyEnv:
        """A new env of a task, without the wrappers of other plugins."""
        ...


def load_program(request: Load, plugins: Plugins) -> Program:
    """Load what a request names.

    Raises:
        ContractError: It cannot be used as a benchmark; says why.
    """
    for name in request.plugins:
        plugins.load(name)
    match request.source:
        case str() as name:
            plugins.load(name)
            return Declared(plugins.benchmark(name), None, request.env_args)
        case FileSource() as source:
            return _load_source(source, request, plugins)


def _load_source(source: FileSource, request: Load, plugins: Plugins) -> Program:
    module = load_file(Path(source.directory), source.file, source.package)
    make_env = getattr(module, "make_env", None)
    # Callables only: a plugin's package that the file imports is called envhub_... too.
    if any(name.startswith("envhub_") and callable(item) for name, item in vars(module).items()):
        plugins.register(module, source.name)
        declared = plugins.benchmarks(source.name)
        if len(declared) != 1:
            raise ContractError(f"{source.file} declares {len(declared)} benchmarks; declare one.")
        return Declared(declared[0], module, request.env_args)
    if callable(make_env):
        return Adapted(make_env, source.name, request.env_args, request.horizon)
    raise ContractError(
        f"{source.file} is no benchmark: it has neither a function make_env(n_envs, ...) nor "
        "hooks marked with @envhub.hookimpl. Add one of them."
    )


class Declared:
    """A benchmark that declares itself through hooks."""

    def __init__(
        self, benchmark: Benchmark, module: ModuleType | None, env_args: Mapping[str, Value]
    ) -> None:
        self.benchmark = benchmark
        self._module = module
        self._env_args = dict(env_args)

    def make(self, suite: str, task: Task) -> AnyEnv:
        """Call the benchmark's `make`."""
        make: Any = load_object(self.benchmark.make, self._module)
        env = make(task, **self._env_args)
        if not isinstance(env, gym.Env):
            kind = type(env).__name__
            raise ContractError(f"{self.benchmark.make} returned a {kind}, not a gymnasium Env.")
        return env


class Adapted:
    """A file of the published contract: `make_env(n_envs=1, use_async_envs=False[, cfg])`."""

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
        """One env: the one at hand if it was never given out, else from another `make_env`."""
        key = self._keys[suite, task.name]
        if key in self._ready:
            return self._ready.pop(key)
        if key not in self._entries:
            self._entries = self._call()
        return self._take(key)

    def _describe(self, horizon: int | None) -> Benchmark:
        self._entries = self._call()
        keys = list(self._entries)
        suites: dict[str, list[Task]] = {}
        for key in keys:
            suite, short = key
            # The published contract numbers tasks in each suite; ours are unique in the benchmark.
            shared = sum(task == short for _, task in keys) > 1
            name = f"{suite}.{short}" if shared else short
            env = self._ready[key] = self._take(key)
            suites.setdefault(suite, []).append(_task_of(env, name, horizon))
            self._keys[suite, name] = key
        return Benchmark(self._name, ":make_env", {s: tuple(tasks) for s, tasks in suites.items()})

    def _call(self) -> dict[tuple[str, str], Entry]:
        returned = self._make_env(**_arguments(self._make_env, self._env_args))
        arranged = arrange(returned, name=self._name)
        return {(s, t): entry for s, tasks in arranged.items() for t, entry in tasks.items()}

    def _take(self, key: tuple[str, str]) -> AnyEnv:
        """The env of an entry; an entry that is an env itself can be taken once."""
        entry = self._entries[key]
        if isinstance(entry, gym.Env | VectorEnv):
            del self._entries[key]
        if isinstance(entry, gym.Env):
            return entry
        vector = vectorize(entry, 1, key=key)
        # Unwrapped, so that no autoreset ever happens behind the engine's back.
        return vector.envs[0] if type(vector) is SyncVectorEnv else EnvOfVector(vector)


def find_task(benchmark: Benchmark, suite: str, name: str) -> Task:
    """The task of a suite."""
    for task in benchmark.suites.get(suite, ()):
        if task.name == name:
            return task
    raise UnknownName("task", name, benchmark.tasks())


def _arguments(make_env: Callable[..., object], env_args: Mapping[str, Value]) -> dict[str, Any]:
    """The keyword arguments for a published `make_env`: the contract's, and those it can take."""
    for name in ("n_envs", "use_async_envs"):
        if name in env_args:
            raise ContractError(f"{name} is EnvHub's to give: leave that --env-arg out.")
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
    told = (_attribute(env, "task_description"), _attribute(env, "task"))
    # Only text: the repr of an object would differ from run to run.
    description = next((text for text in told if isinstance(text, str) and text), name)
    limit = horizon or _attribute(env, "_max_episode_steps")
    if limit is None and env.spec is not None:
        limit = env.spec.max_episode_steps
    if not isinstance(limit, int | np.integer) or limit < 1:
        raise ContractError(
            f"Task {name!r} has no horizon: give --max-steps, or set _max_episode_steps on the env."
        )
    return Task(name=name, description=description, horizon=int(limit), success="ever")


def _attribute(env: AnyEnv, name: str) -> Any:
    """An attribute of the env or of what it wraps; wrappers do not forward theirs."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
