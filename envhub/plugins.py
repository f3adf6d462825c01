"""Load plugins, and call their hooks.

Only the plugin that was asked for is imported, in a worker; observers are imported by the
evaluation, and so are the loggers that were asked for. pluggy ignores several mistakes silently;
`Plugins.register` refuses them.
"""

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING

import pluggy

from envhub import hookspecs
from envhub.declarations import Benchmark, Perturbation, Task
from envhub.discovery import entry_points, find, find_perturbation
from envhub.errors import EnvHubError, InvalidBenchmark, PluginError, UnknownName, UsageError
from envhub.hookspecs import PROJECT, EnvWrapper

if TYPE_CHECKING:
    from envhub.records import EpisodeRecord
    from envhub.results.run import Run
    from envhub.results.summary import Summary

OBSERVERS = "envhub.observers"
"""The entry-point group of modules with run and episode hooks, imported by `envhub eval` only."""
LOGGERS = "envhub.loggers"
"""The entry-point group of modules with the same hooks, which `--log NAME` imports."""
_OWN_LOGGERS = ("mlflow", "tensorboard", "trackio", "wandb")
"""Those of EnvHub's own plugin, which need not be installed."""
_MOST_SAID = 400
"""Characters of what an observer's error says: some are pages."""
_HOOKS = {
    name: tuple(inspect.signature(spec).parameters)
    for name, spec in sorted(vars(hookspecs).items())
    if name.startswith("envhub_")
}
"""The parameters of each hook."""


class _Mistake(Exception):
    """A plugin cannot be used; `_boundary` adds the plugin's name and package."""


class Plugins:
    """The plugins loaded in this process, with one typed method per hook."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._modules: dict[str, ModuleType] = {}
        self._distributions: dict[str, str | None] = {}
        self._observers: set[str] = set()
        self._lock = threading.RLock()  # the cells of an experiment share their observers

    def load(self, name: str) -> None:
        """Import and register the installed plugin of this name."""
        plugin = find(name)
        if name not in self._modules:
            self._import(name, plugin.module, plugin.distribution)

    def load_observers(self) -> None:
        """Import and register every installed observer that is not loaded yet."""
        with self._lock:
            for point in entry_points(OBSERVERS):
                if point.name not in self._observers:
                    self._import(point.name, point.value, _owner(point))
                    self._observers.add(point.name)

    def load_loggers(self, names: Iterable[str]) -> None:
        """Import and register the loggers of these names.

        Raises:
            UsageError: There is none of that name, or a package that it needs is not installed.
            PluginError: It cannot be used.
        """
        for name in dict.fromkeys(names):
            point = _find_logger(name)
            try:
                self._import(name, point.value, _owner(point))
            except PluginError as exc:
                raise _lacking(point, exc) from exc

    def register(self, module: ModuleType, name: str, *, distribution: str | None = None) -> None:
        """Register a module with hooks, possibly under several names, or refuse it."""
        with _boundary(name, "cannot be registered", distribution):
            if name in self._modules:
                raise _Mistake("has the name of a loaded plugin: rename one of them.")
            if module not in self._modules.values():
                self._check(module)
                try:
                    self._manager.register(module, name)
                except pluggy.PluginValidationError as exc:
                    self._manager.unregister(module, name)  # pluggy may keep an invalid plugin
                    problem = f"cannot be registered: {str(exc).splitlines()[-1]}."
                    raise _Mistake(problem) from exc
        self._modules[name] = module
        self._distributions[name] = distribution

    def benchmarks(self, name: str) -> tuple[Benchmark, ...]:
        """Return the benchmarks that a plugin declares."""
        with self._calling("envhub_benchmarks", name) as call:
            if not call.get_hookimpls():
                raise _Mistake("does not implement envhub_benchmarks.")
            declared = [benchmark for result in call() for benchmark in result]
            for benchmark in declared:
                if not isinstance(benchmark, Benchmark):
                    raise _Mistake(f"declares a {type(benchmark).__name__} instead of a Benchmark.")
            if not declared:
                raise _Mistake("declares no benchmark in envhub_benchmarks.")
        return tuple(declared)

    def benchmark(self, name: str, plugin: str | None = None) -> Benchmark:
        """Return the benchmark `name` of a plugin, by default of the plugin with that name."""
        owner = plugin or name
        declared = {benchmark.name: benchmark for benchmark in self.benchmarks(owner)}
        if name not in declared:
            problem = f"declares {', '.join(sorted(declared))}, but no benchmark {name!r}."
            raise PluginError(owner, problem, distribution=self._distributions[owner])
        return declared[name]

    def perturbation(self, name: str) -> tuple[Perturbation, ModuleType]:
        """Import the plugin of a perturbation; return what it declares, and its module.

        Raises:
            UnknownName: No such perturbation is installed.
            PluginError: Its plugin cannot be used.
        """
        found, key = find_perturbation(name), f"{name} (perturbation)"
        if key not in self._modules:
            self._import(key, found.module, found.distribution)
        with self._calling("envhub_perturbations", key) as call:
            for declared in (each for result in call() for each in result):
                if not isinstance(declared, Perturbation):
                    kind = type(declared).__name__
                    raise _Mistake(f"declares a {kind} instead of a Perturbation.")
                if declared.name == name:
                    return declared, self._modules[key]
            raise _Mistake(f"declares no perturbation {name!r} in envhub_perturbations.")

    def wrappers(self, task: Task) -> tuple[EnvWrapper, ...]:
        """Return the wrappers of all loaded plugins for a task, in the order of their names."""
        wrappers: list[EnvWrapper] = []
        for name, _ in sorted(self._manager.list_name_plugin()):
            with self._calling("envhub_wrap_env", name) as call:
                for wrapper in list(call(task=task)):
                    if not callable(wrapper):
                        found = type(wrapper).__name__
                        raise _Mistake(f"returned a {found} from envhub_wrap_env, not a callable.")
                    wrappers.append(wrapper)
        return tuple(wrappers)

    def run_started(self, run: "Run") -> list[PluginError]:
        """Notify observers that a run starts; disable those that fail, and return their errors."""
        return self._notify("envhub_run_started", run=run)

    def episode_finished(self, run: "Run", record: "EpisodeRecord") -> list[PluginError]:
        """Notify observers of a record; disable those that fail, and return their errors."""
        return self._notify("envhub_episode_finished", run=run, record=record)

    def run_finished(self, run: "Run", summary: "Summary") -> list[PluginError]:
        """Notify observers that a run has ended; return the errors of those that fail."""
        return self._notify("envhub_run_finished", run=run, summary=summary)

    def _notify(self, hook: str, **arguments: object) -> list[PluginError]:
        errors: list[PluginError] = []
        for name, _ in sorted(self._manager.list_name_plugin()):
            try:
                with self._calling(hook, name) as call:
                    call(**arguments)
            except PluginError as error:
                with self._lock:
                    told = self._manager.unregister(name=name) is None  # by another cell
                if not told:
                    errors.append(_shortened(error))
        return errors

    @contextmanager
    def _calling(self, hook: str, name: str) -> Iterator[pluggy.HookCaller]:
        """Give a hook as only one plugin implements it, to be called in the `with` block."""
        others = self._manager.get_plugins() - {self._modules[name]}
        with _boundary(name, f"failed in {hook}", self._distributions[name]):
            yield self._manager.subset_hook_caller(hook, remove_plugins=others)

    def _import(self, name: str, module: str, distribution: str | None) -> None:
        with _boundary(name, "cannot be imported", distribution):
            imported = import_module(module)
        self.register(imported, name, distribution=distribution)

    def _check(self, module: ModuleType) -> None:
        """Refuse the mistakes that pluggy would ignore silently."""
        implemented: set[str] = set()
        for name, function in vars(module).items():
            if (options := self._manager.parse_hookimpl_opts(module, name)) is None:
                continue
            hook = options.get("specname") or name
            if hook not in _HOOKS:
                hooks = ", ".join(_HOOKS)
                raise _Mistake(f"implements {hook}, which is not a hook; the hooks are {hooks}.")
            if never := _never_passed(hook, function):
                written, right = inspect.signature(function), ", ".join(_HOOKS[hook])
                raise _Mistake(
                    f"implements {hook}{written}, where {', '.join(never)} would get no value: "
                    f"write {hook}({right}), without defaults."
                )
            implemented.add(hook)
        for hook in _HOOKS:
            if hook not in implemented and callable(vars(module).get(hook)):
                raise _Mistake(f"defines {hook} without @envhub.hookimpl.")
        if not implemented:
            raise _Mistake("implements no hook: mark envhub_benchmarks with @envhub.hookimpl.")


def _owner(point: EntryPoint) -> str | None:
    return point.dist.metadata["Name"] if point.dist is not None else None


def _find_logger(name: str) -> EntryPoint:
    found = {point.name: point for point in entry_points(LOGGERS)}
    if name in found:
        return found[name]
    if name in _OWN_LOGGERS:
        raise UsageError(
            f"--log {name} needs the plugin envhub-loggers, which is not installed. In a clone of "
            f"EnvHub, run: pip install './plugins/loggers[{name}]'"
        )
    raise UnknownName("logger", name, {*found, *_OWN_LOGGERS})


def _lacking(point: EntryPoint, error: PluginError) -> EnvHubError:
    """Return the error of a logger that cannot be imported: what to install, if that is why."""
    lacking = error.__cause__
    if not isinstance(lacking, ModuleNotFoundError) or lacking.name is None:
        return error
    line = f"pip install {lacking.name}"
    if _owner(point) == "envhub-loggers":
        line = f"In a clone of EnvHub, run: pip install './plugins/loggers[{point.name}]'"
    return UsageError(
        f"--log {point.name} needs the package {lacking.name}, which is not installed. {line}"
    )


def _shortened(error: PluginError) -> PluginError:
    """Return an error with a text of one line."""
    text = " ".join(str(error).split())
    if len(text) <= _MOST_SAID and text == str(error):
        return error
    error.args = (text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}...",)
    return error


def _never_passed(hook: str, function: Callable[..., object]) -> list[str]:
    """Return the parameters that pluggy gives no value: keyword-only, with a default, unknown."""
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        or parameter.default is not parameter.empty
        or parameter.name not in _HOOKS[hook]
    ]


@contextmanager
def _boundary(plugin: str, failure: str, distribution: str | None) -> Iterator[None]:
    """Turn any exception of a plugin into a `PluginError` that names the plugin."""
    try:
        yield
    except (PluginError, InvalidBenchmark):
        raise
    except _Mistake as exc:
        raise PluginError(plugin, str(exc), distribution=distribution) from exc
    except (Exception, SystemExit) as exc:
        problem = f"{failure}: {type(exc).__name__}: {exc}"
        raise PluginError(plugin, problem, distribution=distribution) from exc
