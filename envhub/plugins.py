"""Finding plugins by their metadata, and calling their hooks.

Listing imports nothing. Loading imports the one plugin that was asked for, in a worker. pluggy lets
several mistakes pass in silence; `Plugins.register` turns each into a `PluginError`.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import pluggy

from envhub import hookspecs
from envhub.errors import InvalidBenchmark, PluginError, UnknownName
from envhub.hookspecs import PROJECT, EnvWrapper
from envhub.types import NAME, Benchmark, Task

if TYPE_CHECKING:
    from importlib import metadata

    from envhub.records import EpisodeRecord
    from envhub.results.run import Run
    from envhub.results.summary import Summary

GROUP = "envhub"
"""The entry-point group of benchmarks: name = benchmark, value = light module with hooks."""
OBSERVERS = "envhub.observers"
"""The entry-point group of modules with run and episode hooks, imported by `envhub eval` only."""
LIMIT_VARIABLE = "ENVHUB_PLUGINS"
"""Comma list of the plugins that exist; unset means all that are installed."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin as its package's metadata describes it."""

    name: str
    module: str
    distribution: str
    version: str


def installed() -> tuple[Installed, ...]:
    """All plugins, by name, without importing any."""
    wanted = chosen()
    found: set[Installed] = set()
    for point in _entry_points(GROUP):
        if point.dist is not None and (wanted is None or point.name in wanted):
            found.add(Installed(point.name, point.value, *name_and_version(point.dist)))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


def _entry_points(group: str) -> "metadata.EntryPoints":
    # Imported here: a worker that loads an env file has no use for it, and would wait 12 ms.
    from importlib import metadata

    return metadata.entry_points(group=group)


def name_and_version(distribution: "metadata.Distribution") -> tuple[str, str]:
    """As its metadata says; to parse all of that takes a millisecond or two."""
    head, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
    told = dict(re.findall(r"^(Name|Version): *(\S+)$", head, re.MULTILINE))
    if len(told) == 2:
        return told["Name"], told["Version"]
    about = distribution.metadata
    return about["Name"], about["Version"]


def chosen() -> tuple[str, ...] | None:
    """The plugins that `ENVHUB_PLUGINS` names, or None where it is not set."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return None
    return tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))


def find(name: str) -> Installed:
    """The one installed plugin of this name.

    Raises:
        UnknownName: There is none.
        PluginError: Two packages claim the name, or the name is not allowed.
    """
    known = installed()
    claims = [plugin for plugin in known if plugin.name == name]
    if not claims:
        raise UnknownName(
            "installed benchmark",
            name,
            {plugin.name for plugin in known},
            advice="A local one is written ./NAME, one on the Hub owner/repo@<commit>.",
        )
    if len(claims) > 1:
        owners = " and ".join(plugin.distribution for plugin in claims)
        raise PluginError(name, f"is claimed by {owners}: uninstall one of them.")
    if not NAME.fullmatch(name):
        raise PluginError(name, "has a name that no benchmark may have.")
    return claims[0]


class Plugins:
    """The plugins loaded in this process, with one typed method for each hook."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._modules: dict[str, ModuleType] = {}
        self._distributions: dict[str, str | None] = {}

    def load(self, name: str) -> None:
        """Import and register the installed plugin of this name."""
        plugin = find(name)
        if name in self._modules:
            return
        with _boundary(name, "cannot be imported", plugin.distribution):
            module = import_module(plugin.module)
        self.register(module, name, distribution=plugin.distribution)

    def register(self, module: ModuleType, name: str, *, distribution: str | None = None) -> None:
        """Register a module that has hooks, or say why it cannot be used and forget it.

        A module may be registered under several names, one for each benchmark that it declares.
        """
        if name in self._modules:
            problem = "cannot be used beside a loaded plugin of the same name: rename one of them."
            raise PluginError(name, problem, distribution=distribution)
        if module not in self._modules.values():
            self._add(module, name, distribution)
        self._modules[name] = module
        self._distributions[name] = distribution

    def benchmarks(self, name: str) -> tuple[Benchmark, ...]:
        """What one plugin declares through `envhub_benchmarks`."""
        caller = self._only("envhub_benchmarks", self._modules[name])
        if not caller.get_hookimpls():
            raise self._error(name, "does not implement envhub_benchmarks.")
        with _boundary(name, "failed in envhub_benchmarks", self._distributions[name]):
            declared = [benchmark for result in caller() for benchmark in result]
        for benchmark in declared:
            if not isinstance(benchmark, Benchmark):
                kind = type(benchmark).__name__
                raise self._error(name, f"declares a {kind} where a Benchmark belongs.")
        if not declared:
            raise self._error(name, "declares no benchmark in envhub_benchmarks.")
        return tuple(declared)

    def benchmark(self, name: str, plugin: str | None = None) -> Benchmark:
        """The benchmark called `name` that a plugin (by default the one of that name) declares."""
        declared = {benchmark.name: benchmark for benchmark in self.benchmarks(plugin or name)}
        if name not in declared:
            found = ", ".join(sorted(declared))
            raise self._error(plugin or name, f"declares {found}, but no benchmark {name!r}.")
        return declared[name]

    def wrappers(self, task: Task) -> tuple[EnvWrapper, ...]:
        """What all loaded plugins want around the env of a task, in the order of their names."""
        found: list[EnvWrapper] = []
        for name in sorted(name for name, _ in self._manager.list_name_plugin()):
            caller = self._only("envhub_wrap_env", self._modules[name])
            with _boundary(name, "failed in envhub_wrap_env", self._distributions[name]):
                results = list(caller(task=task))
            for wrapper in results:
                if not callable(wrapper):
                    kind = type(wrapper).__name__
                    problem = f"returned a {kind} from envhub_wrap_env, no callable."
                    raise self._error(name, problem)
                found.append(wrapper)
        return tuple(found)

    def load_observers(self) -> None:
        """Import and register every installed observer."""
        for point in _entry_points(OBSERVERS):
            owner = point.dist.metadata["Name"] if point.dist is not None else None
            with _boundary(point.name, "cannot be imported", owner):
                module = import_module(point.value)
            self.register(module, point.name, distribution=owner)

    def run_started(self, run: "Run") -> list[PluginError]:
        """Tell observers that a run begins; those that fail are told no more, and returned."""
        return self._tell("envhub_run_started", run=run)

    def episode_finished(self, run: "Run", record: "EpisodeRecord") -> list[PluginError]:
        """Tell observers of a record; those that fail are told no more, and returned."""
        return self._tell("envhub_episode_finished", run=run, record=record)

    def run_finished(self, run: "Run", summary: "Summary") -> list[PluginError]:
        """Tell observers that a run has ended; those that fail are returned."""
        return self._tell("envhub_run_finished", run=run, summary=summary)

    def _tell(self, hook: str, **arguments: object) -> list[PluginError]:
        problems: list[PluginError] = []
        for name in sorted(name for name, _ in self._manager.list_name_plugin()):
            try:
                with _boundary(name, f"failed in {hook}", self._distributions[name]):
                    self._only(hook, self._modules[name])(**arguments)
            except PluginError as problem:
                self._manager.unregister(name=name)
                problems.append(problem)
        return problems

    def _add(self, module: ModuleType, name: str, distribution: str | None) -> None:
        problem = self._problem(module)
        if problem is not None:
            raise PluginError(name, problem, distribution=distribution)
        try:
            self._manager.register(module, name)
        except pluggy.PluginValidationError as exc:
            # pluggy may keep a plugin whose validation failed.
            self._manager.unregister(module, name)
            detail = f"cannot be registered: {str(exc).splitlines()[-1]}."
            raise PluginError(name, detail, distribution=distribution) from exc

    def _only(self, hook: str, module: ModuleType) -> pluggy.HookCaller:
        others = self._manager.get_plugins() - {module}
        return self._manager.subset_hook_caller(hook, remove_plugins=others)

    def _error(self, name: str, problem: str) -> PluginError:
        return PluginError(name, problem, distribution=self._distributions[name])

    def _problem(self, module: ModuleType) -> str | None:
        """What pluggy would let pass in silence, or refuse in words of its own."""
        known = {name for name in vars(hookspecs) if name.startswith("envhub_")}
        marked: set[str] = set()
        for attribute, value in vars(module).items():
            options = self._manager.parse_hookimpl_opts(module, attribute)
            if options is None:
                continue
            hook = options.get("specname") or attribute
            if hook not in known:
                hooks = ", ".join(sorted(known))
                return f"implements {hook}, which is no hook; the hooks are {hooks}."
            problem = _signature_problem(hook, value)
            if problem is not None:
                return problem
            marked.add(hook)
        for name in sorted(known - marked):
            if callable(vars(module).get(name)):
                return f"defines {name} without the mark @envhub.hookimpl."
        if not marked:
            return "implements no hook: mark envhub_benchmarks with @envhub.hookimpl."
        return None


def _signature_problem(hook: str, implementation: Callable[..., object]) -> str | None:
    """Parameters that pluggy would never pass a value to."""
    spec = inspect.signature(getattr(hookspecs, hook))
    signature = inspect.signature(implementation)
    never = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        or parameter.default is not parameter.empty
        or parameter.name not in spec.parameters
    ]
    if not never:
        return None
    return (
        f"implements {hook}{signature}, where {', '.join(never)} would get no value: write "
        f"{hook}({', '.join(spec.parameters)}), without defaults."
    )


@contextmanager
def _boundary(plugin: str, failed: str, distribution: str | None) -> Iterator[None]:
    """Turn whatever a plugin raises into a `PluginError` that names it."""
    try:
        yield
    except (PluginError, InvalidBenchmark):
        raise
    except (Exception, SystemExit) as exc:
        detail = f"{failed}: {type(exc).__name__}: {exc}"
        raise PluginError(plugin, detail, distribution=distribution) from exc
