"""Loading a benchmark in a worker, to run it or to describe it."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path

from envhub.declarations import Benchmark, Task
from envhub.discovery import find_perturbation
from envhub.errors import (
    ContractError,
    SourceCorrupt,
    WorkerDied,
    WorkerError,
    WorkerRaised,
    WorkerTimeout,
)
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import close_workers
from envhub.offline import Missing
from envhub.options import SILENT, Reporter, RuntimeChoice
from envhub.runtime.provision import provision
from envhub.sandbox.variables import check_variables
from envhub.sources.assets import find_assets
from envhub.sources.requirements import Requirements, requirements_at
from envhub.types import FileSource, Interpreter, PluginSource, Source, WorkerSpec
from envhub.wire.messages import Loaded, Opened
from envhub.wire.spaces import Spaces, decode_spaces

"""Receives messages for the user."""

_MOST_FATAL = 3
"""Tasks of a file that may end their process; each costs another start."""

_MISSING_MODULE = re.compile(r"No module named '([A-Za-z_]\w*)[\w.]*'")


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """A worker that has loaded a benchmark."""

    remote: RemoteEnv
    loaded: Loaded
    spec: WorkerSpec
    """What others for the same benchmark are started from; this one was before its interpreter was
    known to meet the requirements, and before it had described a file."""
    fatal: Mapping[str, WorkerError] = field(default_factory=dict)
    """The tasks whose envs ended the processes of workers before this one, or made them hang."""

    @property
    def broken(self) -> dict[str, WorkerError]:
        """The tasks whose envs cannot be made, and why, in the order of the benchmark."""
        raised = {
            name: WorkerRaised(
                f"making the env of task {name!r}",
                found.kind,
                found.message,
                contract=found.contract,
                traceback=found.traceback,
                place=found.place,
            )
            for name, found in self.loaded.broken.items()
        }
        every: dict[str, WorkerError] = {**raised, **self.fatal}
        return {name: every[name] for name in self.loaded.benchmark.tasks() if name in every}


@dataclass(frozen=True, slots=True)
class Description:
    """The benchmark of a source, and how to start workers for it."""

    benchmark: Benchmark
    spec: WorkerSpec
    """What workers for the benchmark are started from."""
    spaces: Mapping[str, Spaces]
    """The observation space and the action space of tasks, as far as they are known."""
    broken: Mapping[str, WorkerError] = field(default_factory=dict)
    """The tasks whose envs cannot be made, and why."""
    without_horizon: frozenset[str] = frozenset()
    """The tasks whose envs have no horizon; that of the task means nothing."""

    def horizon(self, task: Task) -> int | None:
        """Return a task's horizon; None if it has none, or cannot be made."""
        unknown = task.name in self.broken or task.name in self.without_horizon
        return None if unknown else task.horizon


class LazySpec:
    """A worker spec whose interpreter is chosen, or built, when the first worker is needed.

    All vector environments of one `make_env` share it, so that a runtime is built once.
    """

    def __init__(self, description: Description, choice: RuntimeChoice) -> None:
        self.limits = description.spec.limits
        self._description = description
        self._choice = choice
        self._lock = threading.Lock()
        self._spec: WorkerSpec | None = None

    def get(self) -> WorkerSpec:
        """Return the spec to start workers from.

        Raises:
            RuntimeUnavailable: The requirements of a plugin are not available.
            SourceUnavailable: The assets of a plugin are not available.
        """
        with self._lock:
            if self._spec is None:
                self._spec = self._provisioned()
            return self._spec

    def _provisioned(self) -> WorkerSpec:
        spec = self._description.spec
        if not isinstance(spec.source, PluginSource):
            return spec
        benchmark = self._description.benchmark
        assets = find_assets(benchmark, spec.env_args)
        interpreter = provision(spec.source, self._choice, benchmark)
        return replace(spec, interpreter=interpreter, assets=assets)


def start_loaded_worker(
    spec: WorkerSpec,
    choice: RuntimeChoice,
    *,
    locked: bool = False,
    name: str = "",
    log: Path | None = None,
    inline: bool = False,
    spaces: bool = False,
    missing: Missing | None = None,
    reporter: Reporter = SILENT,
) -> LoadedWorker:
    """Start a worker that loads the benchmark, on the interpreter that the benchmark requires.

    The requirements of an env file are read before it runs. A plugin reports its own when it is
    loaded, on this interpreter; if they are not installed here, this worker is replaced by one in a
    runtime that meets them.

    Args:
        spec: What to load; its interpreter is chosen here.
        choice: The interpreter that the user asked for.
        locked: Whether to use the pins of `envhub.lock`.
        name: The worker's name in errors.
        log: A file for the beginning of the worker's output.
        inline: Whether to run the worker in this process.
        spaces: Whether to ask which spaces the tasks declare.
        missing: What is missing already, where there is no network.
        reporter: Is told what the user should know, and of work that takes long.

    Raises:
        RuntimeUnavailable: The benchmark's requirements are not available.
        SourceUnavailable: The benchmark's assets are not available.
        WorkerError: The code raised, ended its process, did not answer or is not a benchmark.
    """
    check_variables(spec.env_vars, confined=spec.confinement is not None)  # before what takes long
    choose = partial(
        provision,
        spec.source,
        choice,
        inline=inline,
        perturbations=tuple(spec.perturb),
        reporter=reporter,
    )
    load = partial(_load, name=name, log=log, inline=inline, spaces=spaces)
    missing = missing or Missing()
    first = missing.try_to(lambda: choose(locked=locked))
    if first is None or not isinstance(spec.source, PluginSource):
        missing.check()
    assert first is not None
    first = _with_perturbations(first, spec)
    worker = load(replace(spec, interpreter=first))
    if not isinstance(spec.source, PluginSource):
        return replace(worker, spec=replace(worker.spec, declared=worker.loaded.benchmark))
    try:
        benchmark = worker.loaded.benchmark
        assets = missing.try_to(lambda: find_assets(benchmark, spec.env_args, reporter.progress))
        interpreter = missing.try_to(lambda: choose(benchmark))
        missing.check()
    except BaseException:
        _end(worker)
        raise
    assert interpreter is not None
    assert assets is not None
    if interpreter.kind != "isolated" and not assets:
        return replace(worker, spec=replace(spec, interpreter=interpreter))
    _end(worker)
    return load(replace(spec, interpreter=interpreter, assets=assets))


def _with_perturbations(interpreter: Interpreter, spec: WorkerSpec) -> Interpreter:
    """Return an interpreter that has the code of perturbations in a sandbox, too.

    There a worker reads only what it needs, and an editable installation may be anywhere.
    """
    if spec.confinement is None or not spec.perturb or interpreter.kind == "isolated":
        return interpreter
    from envhub.runtime.own_packages import copy_packages

    copies = copy_packages(find_perturbation(name).distribution for name in spec.perturb)
    return replace(interpreter, paths=copies)


def describe(
    spec: WorkerSpec,
    choice: RuntimeChoice,
    *,
    locked: bool = False,
    with_spaces: bool = False,
    reporter: Reporter = SILENT,
) -> Description:
    """Load a source in a worker, read what it declares, and end the worker.

    A plugin is loaded on this interpreter: no runtime is built, and no env is made.

    Args:
        spec: What to load; its limit `start` applies to each answer.
        choice: The interpreter that the user asked for.
        locked: Whether to use the pins of `envhub.lock`.
        with_spaces: Whether to make the env of an env file's first task, if it declares no spaces.
        reporter: Is told what the user should know, and of work that takes long.

    Raises:
        RuntimeUnavailable: The requirements of an env file are not available.
        WorkerError: The code raised, ended its process, did not answer or is not a benchmark.
    """
    if isinstance(spec.source, PluginSource):
        worker = replace(_load(replace(spec, makes_envs=False), spaces=True), spec=spec)
    else:
        worker = start_loaded_worker(spec, choice, locked=locked, spaces=True, reporter=reporter)
    try:
        spaces = dict(_declared_spaces(worker))
        if with_spaces and not spaces and not isinstance(spec.source, PluginSource):
            with explaining(worker.spec):
                spaces = _spaces_of_first_task(worker)
    finally:
        _end(worker)
    return Description(
        worker.loaded.benchmark,
        worker.spec,
        spaces,
        worker.broken,
        frozenset(worker.loaded.without_horizon),
    )


@contextmanager
def explaining(spec: WorkerSpec) -> Iterator[None]:
    """Add advice to the error of an env file that imports a package it does not declare.

    Raises:
        SourceCorrupt: A file has changed after the host checked it.
    """
    try:
        yield
    except WorkerRaised as error:
        if error.contract and error.kind == SourceCorrupt.__name__:
            raise SourceCorrupt(error.message) from error
        explained = _explain(error, spec.source, spec.interpreter)
        if explained is None:
            raise
        raise explained from error


def _load(
    spec: WorkerSpec,
    *,
    name: str = "",
    log: Path | None = None,
    inline: bool = False,
    spaces: bool = False,
) -> LoadedWorker:
    """Load a benchmark; again without a task of a file whose env ends the process.

    Raises:
        WorkerError: It cannot be loaded, or too many of its tasks are like that.
    """
    fatal: dict[str, WorkerError] = {}
    while True:
        remote = RemoteEnv(name, spec, log=log, inline=inline)
        try:
            with explaining(spec):
                remote.load(packages=True, spaces=spaces, fatal=tuple(fatal))
                loaded = remote.answer(Loaded)
            if fatal and fatal.keys() >= loaded.benchmark.tasks().keys():
                raise next(iter(fatal.values()))
            return LoadedWorker(remote, loaded, spec, fatal)
        except (WorkerDied, WorkerTimeout) as error:
            close_workers([remote.worker], limit=spec.limits.close)
            task = remote.worker.making
            if task is None or task in fatal or len(fatal) == _MOST_FATAL:
                raise
            fatal[task] = error
        except BaseException:
            close_workers([remote.worker], limit=spec.limits.close)
            raise


def _end(worker: LoadedWorker) -> None:
    close_workers([worker.remote.worker], limit=worker.spec.limits.close)


def _declared_spaces(worker: LoadedWorker) -> Iterator[tuple[str, Spaces]]:
    for tasks, observation, action in worker.loaded.spaces:
        try:
            spaces = decode_spaces(observation, action)
        except ValueError as exc:
            raise worker.remote.worker.broken(exc) from exc
        yield from ((task, spaces) for task in tasks)


def _spaces_of_first_task(worker: LoadedWorker) -> dict[str, Spaces]:
    benchmark, remote, broken = worker.loaded.benchmark, worker.remote, worker.broken
    for suite in (*benchmark.default, *benchmark.suites):
        for task in benchmark.suites[suite]:
            if task.name not in broken:
                remote.open(suite, task.name)
                return {task.name: remote.spaces(remote.answer(Opened))}
    return {}


def _explain(error: WorkerRaised, source: Source, interpreter: Interpreter) -> WorkerRaised | None:
    match = _MISSING_MODULE.match(error.message)
    if not isinstance(source, FileSource) or error.kind != "ModuleNotFoundError" or not match:
        return None
    module = match[1]
    declared = _declared_requirements(source)
    if declared is None or _is_own_module(source, module):
        return None
    known = metadata.packages_distributions().get(module)
    # Guess for a package that is not installed: most are named like their module.
    distribution = sorted(known)[0] if known else module.replace("_", "-")
    how = f"declare it at the top of the file, as in\n{_pep723_block(declared, distribution)}"
    if declared.file:
        how = f"add the line {distribution} to {declared.file}."
    package = f" (of the package {distribution})" if known else ""
    where = "its runtime" if interpreter.kind == "isolated" else "this interpreter"
    return WorkerRaised(
        error.doing,
        error.kind,
        f"{error.message}. {source.file} imports {module}{package}, which {where} does not have: "
        f"{how}",
        contract=error.contract,
        traceback=error.traceback,
        where=error.where,
        log=error.log,
        hint=error.hint,
    )


def _declared_requirements(source: FileSource) -> Requirements | None:
    try:
        return requirements_at(Path(source.directory, source.file), source.file)
    except (ContractError, OSError):
        return None


def _is_own_module(source: FileSource, module: str) -> bool:
    """Whether a module is part of the benchmark itself, so that no package provides it."""
    folder = Path(source.directory)
    return (folder / f"{module}.py").exists() or (folder / module).is_dir()


def _pep723_block(declared: Requirements, distribution: str) -> str:
    packages = "".join(f'#     "{_quoted(name)}",\n' for name in (*declared.packages, distribution))
    python = f'# requires-python = "{declared.python}"\n' if declared.python else ""
    return f"# /// script\n{python}# dependencies = [\n{packages}# ]\n# ///"


def _quoted(requirement: str) -> str:
    return requirement.replace('"', "'")
