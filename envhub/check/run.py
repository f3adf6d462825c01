"""Checking a benchmark: load it, choose tasks, inspect each."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Unpack

from envhub.arguments import (
    check_flag,
    check_limits,
    check_names,
    check_reference,
    check_values,
    check_workers,
)
from envhub.check.findings import Findings
from envhub.check.report import Report
from envhub.check.settings import FULL, QUICK, Settings
from envhub.check.task import TaskInspection
from envhub.declarations import Task
from envhub.errors import UsageError, WorkerError
from envhub.evaluation.plan import select
from envhub.host.loading import LoadedWorker, start_loaded_worker
from envhub.host.waiting import close_workers
from envhub.options import Argument, Limits, Reporter, Say, SourceKeywords, SourceOptions
from envhub.sources.find import find_source
from envhub.types import WorkerSpec, confinement_of


def check_benchmark(
    ref: str | Path,
    *,
    suites: Iterable[str] = (),
    tasks: Iterable[str] = (),
    quick: bool = False,
    workers: int | Literal["auto"] | None = None,
    env_args: Mapping[str, Argument] | None = None,
    limits: Limits | None = None,
    message: Say = lambda _: None,
    progress: Say = lambda _: None,
    **source: Unpack[SourceKeywords],
) -> Report:
    """Check whether a benchmark keeps its contract, as `envhub check` does.

    Args:
        ref: An installed benchmark's name, a local `./directory` or `./file.py`, or
            `owner/repo@<commit>:env.py` on the Hub.
        suites: Names of suites; none: the benchmark's default; `all`: every suite.
        tasks: Names of tasks; none: all tasks of the suites, with `quick` only the first.
        quick: Whether to play less, and only the first task unless tasks are named.
        workers: 0: everything in this process, for debuggers. Other numbers mean nothing here.
        env_args: Arguments of the benchmark's function that makes envs.
        limits: Seconds after which a process that does not answer is ended.
        message: Receives messages that the user should see.
        progress: Receives what is being inspected.
        **source: How to get the benchmark, and where to run it, as for `envhub.make_env`.

    Raises:
        UsageError: The benchmark, suite or task does not exist.
        RuntimeUnavailable: The benchmark's requirements are not available.
    """
    options = SourceOptions.of("check_benchmark", source)
    settings = Settings(
        ref=check_reference(ref),
        env_args=check_values("env_args", env_args),
        limits=check_limits(limits),
        options=options,
        effort=QUICK if check_flag("quick", quick) else FULL,
        inline=check_workers(workers) == 0,
        message=progress,
    )
    found = find_source(settings.ref, options, message=message)
    if settings.inline and confinement_of(found) is not None:
        raise UsageError("--workers 0 runs code in this process; code from the Hub needs workers.")
    spec = WorkerSpec(found, settings.env_args, settings.limits, env_vars=options.env_vars)
    try:
        worker = start_loaded_worker(
            spec,
            options.runtime,
            locked=options.locked,
            inline=settings.inline,
            reporter=Reporter(message, message),
        )
    except WorkerError as exc:
        findings = Findings("")
        findings.failed("loads", exc.problem)
        return Report(settings.ref, "", (), quick, tuple(findings.results()))
    close_workers([worker.remote.worker], limit=settings.limits.close)
    chosen = _choose(
        worker, check_names("suites", suites), check_names("tasks", tasks), quick=quick
    )
    return _inspect(settings, worker, chosen, quick=quick)


def _inspect(
    settings: Settings, worker: LoadedWorker, chosen: list[tuple[str, Task]], *, quick: bool
) -> Report:
    benchmark = worker.loaded.benchmark
    every: list[Findings] = []
    for suite, task in chosen:
        if task.name in worker.broken:
            findings = Findings(task.name)
            findings.failed("env-made", worker.broken[task.name].problem)
        else:
            findings = TaskInspection(settings, worker.spec, benchmark, suite, task).run()
        every.append(findings)
    results = [result for findings in every for result in findings.results()]
    return Report(
        settings.ref,
        benchmark.name,
        tuple(task.name for _, task in chosen),
        quick,
        tuple(results),
        {findings.task: findings.figures for findings in every},
        benchmark.memory_mb,
    )


def _choose(
    worker: LoadedWorker, suites: tuple[str, ...], tasks: tuple[str, ...], *, quick: bool
) -> list[tuple[str, Task]]:
    """Return the tasks to inspect, each once, with a suite that it is in."""
    selected = select(worker.loaded.benchmark, suites, tasks)
    every = {task.name: (suite, task) for suite, chosen in selected.items() for task in chosen}
    made = [pair for name, pair in every.items() if name not in worker.broken]
    return (made or list(every.values()))[:1] if quick and not tasks else list(every.values())
