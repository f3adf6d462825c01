"""Loading a benchmark in a worker: to run it, or to describe it."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path

from envhub.errors import ContractError, WorkerRaised
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import close_workers
from envhub.runtime.provision import provision
from envhub.sources.requirements import Requirements, read_requirements
from envhub.types import (
    Benchmark,
    FileSource,
    Interpreter,
    PluginSource,
    RuntimeChoice,
    Source,
    WorkerSpec,
)
from envhub.wire.messages import Loaded, Opened
from envhub.wire.spaces import Spaces, decode_spaces

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """A worker that has loaded a benchmark."""

    remote: RemoteEnv
    loaded: Loaded

    @property
    def spec(self) -> WorkerSpec:
        """As it was started; others for the same benchmark are started alike."""
        return self.remote.spec


def start_loaded_worker(
    spec: WorkerSpec,
    choice: RuntimeChoice,
    *,
    locked: bool = False,
    name: str = "",
    log: Path | None = None,
    inline: bool = False,
    spaces: bool = False,
    message: Say = lambda _: None,
    progress: Say = lambda _: None,
) -> LoadedWorker:
    """Start a worker that has loaded the benchmark, on the interpreter that it requires.

    An env file says before it is run what it requires. A plugin is asked, on this interpreter; if
    it requires what is not installed here, another worker takes over in a runtime of its own.

    Args:
        spec: What to load; its interpreter is chosen here.
        choice: Which interpreter the user wants.
        locked: Whether to take the pins of `envhub.lock`.
        name: What errors call the worker.
        log: A file for the beginning of its output.
        inline: Whether to run it in this process.
        spaces: Whether it is to say which spaces tasks declare.
        message: Receives what the user should know.
        progress: Receives what takes its time.

    Raises:
        RuntimeUnavailable: What it requires is not available.
        WorkerError: The code raised, ended its process or did not answer; or is not a benchmark.
    """
    choose = partial(
        provision, spec.source, choice, inline=inline, message=message, progress=progress
    )
    load = partial(_load, name=name, log=log, inline=inline, spaces=spaces)
    worker = load(replace(spec, interpreter=choose(locked=locked)))
    if not isinstance(spec.source, PluginSource):
        return worker
    try:
        interpreter = choose(worker.loaded.benchmark)
    except BaseException:
        _end(worker)
        raise
    if interpreter.kind != "isolated":
        return LoadedWorker(worker.remote.on(interpreter), worker.loaded)
    _end(worker)
    return load(replace(spec, interpreter=interpreter))


def _load(
    spec: WorkerSpec,
    *,
    name: str = "",
    log: Path | None = None,
    inline: bool = False,
    spaces: bool = False,
) -> LoadedWorker:
    remote = RemoteEnv(name, spec, log=log, inline=inline)
    try:
        with explaining(spec):
            remote.load(packages=True, spaces=spaces)
            return LoadedWorker(remote, remote.answer(Loaded))
    except BaseException:
        close_workers([remote.worker], limit=spec.limits.close)
        raise


def _end(worker: LoadedWorker) -> None:
    close_workers([worker.remote.worker], limit=worker.spec.limits.close)


@dataclass(frozen=True, slots=True)
class Description:
    """What a source declares."""

    benchmark: Benchmark
    spec: WorkerSpec
    """What workers for it are started from."""
    spaces: Mapping[str, Spaces]
    """The observation and the action space of tasks, of those for which they are known."""


def describe(
    spec: WorkerSpec,
    choice: RuntimeChoice,
    *,
    locked: bool = False,
    with_spaces: bool = False,
    message: Say = lambda _: None,
    progress: Say = lambda _: None,
) -> Description:
    """Load a source in a process of its own, and end it.

    A plugin declares itself on this interpreter: no runtime is built, and none of its envs is made.

    Args:
        spec: What to load; of its limits, `start` bounds each answer.
        choice: Which interpreter the user wants.
        locked: Whether to take the pins of `envhub.lock`.
        with_spaces: Whether to make the env of an env file's first task, for its spaces.
        message: Receives what the user should know.
        progress: Receives what takes its time.

    Raises:
        RuntimeUnavailable: What an env file requires is not available.
        WorkerError: The code raised, ended its process or did not answer; or is not a benchmark.
    """
    if isinstance(spec.source, PluginSource):
        worker = _load(spec, spaces=True)
    else:
        worker = start_loaded_worker(
            spec, choice, locked=locked, spaces=True, message=message, progress=progress
        )
    try:
        spaces = dict(_declared_spaces(worker))
        if with_spaces and not spaces and not isinstance(spec.source, PluginSource):
            with explaining(worker.spec):
                spaces = _first_spaces(worker)
    finally:
        _end(worker)
    return Description(worker.loaded.benchmark, worker.spec, spaces)


def _declared_spaces(worker: LoadedWorker) -> Iterator[tuple[str, Spaces]]:
    for tasks, observation, action in worker.loaded.spaces:
        try:
            spaces = decode_spaces(observation, action)
        except ValueError as exc:
            raise worker.remote.worker.broken(exc) from exc
        yield from ((task, spaces) for task in tasks)


def _first_spaces(worker: LoadedWorker) -> dict[str, Spaces]:
    benchmark, remote = worker.loaded.benchmark, worker.remote
    suite = benchmark.default[0] if benchmark.default else next(iter(benchmark.suites))
    task = benchmark.suites[suite][0].name
    remote.open(suite, task)
    return {task: remote.spaces(remote.answer(Opened))}


class LazySpec:
    """A benchmark's worker spec, its interpreter chosen or built when a worker is first needed.

    Shared by all vector environments of one `make_env`, so that a runtime is built once.
    """

    def __init__(self, described: Description, choice: RuntimeChoice) -> None:
        self.limits = described.spec.limits
        self._described = described
        self._choice = choice
        self._lock = threading.Lock()
        self._spec: WorkerSpec | None = None

    def get(self) -> WorkerSpec:
        """The spec to start workers from.

        Raises:
            RuntimeUnavailable: What a plugin requires is not available.
        """
        with self._lock:
            if self._spec is None:
                self._spec = self._provisioned()
            return self._spec

    def _provisioned(self) -> WorkerSpec:
        spec = self._described.spec
        if not isinstance(spec.source, PluginSource):
            return spec
        interpreter = provision(spec.source, self._choice, self._described.benchmark)
        return replace(spec, interpreter=interpreter)


_MISSING = re.compile(r"No module named '([A-Za-z_]\w*)[\w.]*'")


@contextmanager
def explaining(spec: WorkerSpec) -> Iterator[None]:
    """Add the lines to write to the error of a file that imports what it does not declare."""
    try:
        yield
    except WorkerRaised as error:
        explained = _explain(error, spec.source, spec.interpreter)
        if explained is None:
            raise
        raise explained from error


def _explain(error: WorkerRaised, source: Source, interpreter: Interpreter) -> WorkerRaised | None:
    found = _MISSING.match(error.message)
    if not isinstance(source, FileSource) or error.kind != "ModuleNotFoundError" or not found:
        return None
    module = found[1]
    declared = _declared(source)
    if declared is None or _is_beside(source, module):
        return None
    known = metadata.packages_distributions().get(module)
    # Where nobody here has it, most packages are called as their module is.
    distribution = sorted(known)[0] if known else module.replace("_", "-")
    lines = _block(declared, distribution)
    called = f" (of the package {distribution})" if known else ""
    where = "its runtime" if interpreter.kind == "isolated" else "this interpreter"
    return WorkerRaised(
        error.doing,
        error.kind,
        f"{error.message}. {source.file} imports {module}{called}, which {where} does not have: "
        f"declare it at the top of the file, as in\n{lines}",
        contract=error.contract,
        traceback=error.traceback,
        where=error.where,
        log=error.log,
    )


def _declared(source: FileSource) -> Requirements | None:
    try:
        text = Path(source.directory, source.file).read_text(encoding="utf-8", errors="replace")
        return read_requirements(text, source.file)
    except (ContractError, OSError):
        return None


def _is_beside(source: FileSource, module: str) -> bool:
    """Whether it is a part of the benchmark itself, which no package provides."""
    folder = Path(source.directory)
    return (folder / f"{module}.py").exists() or (folder / module).is_dir()


def _block(declared: Requirements, distribution: str) -> str:
    packages = "".join(f'#     "{_quoted(one)}",\n' for one in (*declared.packages, distribution))
    python = f'# requires-python = "{declared.python}"\n' if declared.python else ""
    return f"# /// script\n{python}# dependencies = [\n{packages}# ]\n# ///"


def _quoted(requirement: str) -> str:
    return requirement.replace('"', "'")
