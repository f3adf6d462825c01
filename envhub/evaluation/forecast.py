"""What an experiment would take: episodes, time, disk, and what is missing before it can begin."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from envhub.errors import EnvHubError
from envhub.evaluation.experiment import cell_request
from envhub.evaluation.plan import make_plan, select
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.run import start_run
from envhub.host.loading import describe
from envhub.machine import resources
from envhub.options import SourceOptions
from envhub.policies.kinds import Provided
from envhub.refs import HubRef
from envhub.results.experiment import Cell, Experiment
from envhub.results.run import Run, open_run
from envhub.runtime.provision import find_unmet, requirements_of
from envhub.scratch import scratch_directory
from envhub.seeding import DEFAULT_SEEDING
from envhub.sources import store
from envhub.sources.find import find_source, read_reference
from envhub.sources.hub import endpoint
from envhub.sources.trust import Ledger, Refused, decide, refusal
from envhub.types import WorkerSpec

_PROBES = 2
_MOST_RUNS = 200
"""Earlier runs that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the cells of a benchmark would take together."""

    benchmark: str
    cells: int
    episodes: int | None = None
    """Of all its cells; None: nothing can be said before its code may run."""
    seconds: float | None = None
    """Of one worker per episode."""
    disk: float | None = None
    """Bytes per episode."""
    source: str | None = None
    """Where the time is from."""
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What an experiment would take."""

    cells: int
    workers: int
    columns: tuple[Column, ...]
    builds: tuple[str, ...]
    """Runtimes that may have to be built."""
    downloads: tuple[str, ...]
    refused: tuple[str, ...]
    """Consent that is missing."""
    problems: tuple[str, ...]
    """Policies and benchmarks that do not exist, or cannot be used."""

    @property
    def episodes(self) -> int | None:
        """Of all cells, as far as that is known."""
        known = [column.episodes for column in self.columns]
        return None if None in known else sum(count or 0 for count in known)

    @property
    def seconds(self) -> float | None:
        """Of all cells, on all workers."""
        if any(column.episodes is None or column.seconds is None for column in self.columns):
            return None
        total = sum((c.episodes or 0) * (c.seconds or 0.0) for c in self.columns)
        return total / self.workers

    @property
    def disk(self) -> float | None:
        """Bytes of all records."""
        if any(column.episodes is None or column.disk is None for column in self.columns):
            return None
        return sum((c.episodes or 0) * (c.disk or 0.0) for c in self.columns)


def forecast(
    experiment: Experiment,
    options: SourceOptions,
    workers: int | None,
    watcher: Watcher,
    around: Path,
) -> Forecast:
    """Say what an experiment would take. Nothing is fetched or built, and no cell is played.

    Args:
        experiment: What would be played.
        options: How to get and protect the code of benchmarks.
        workers: Those of all cells together; None: as many as cores and free memory allow.
        watcher: Of the probes.
        around: A directory with earlier runs.
    """
    found = _Finder(experiment, options, watcher, around)
    columns = tuple(map(found.column, experiment.question.benchmarks))
    found.look_at_policies()
    memory_mb = max((column.memory_mb or 1 for column in columns), default=1)
    most = max(1, min(resources.cores(), resources.memory_mb() // memory_mb))
    return Forecast(
        cells=len(experiment.cells),
        workers=workers or most,
        columns=columns,
        builds=tuple(found.builds),
        downloads=tuple(found.downloads),
        refused=tuple(found.refused),
        problems=tuple(dict.fromkeys(found.problems)),
    )


class _Finder:
    def __init__(
        self, experiment: Experiment, options: SourceOptions, watcher: Watcher, around: Path
    ) -> None:
        self._experiment, self._options, self._watcher = experiment, options, watcher
        self._around = around
        self.builds: list[str] = []
        self.downloads: list[str] = []
        self.refused: list[str] = []
        self.problems: list[str] = []

    def column(self, name: str) -> Column:
        cells = [cell for cell in self._experiment.cells if cell.benchmark == name]
        empty = Column(benchmark=name, cells=len(cells))
        try:
            if not self._is_here(name, cells[0]):
                return empty
            return self._measure(empty, cells)
        except EnvHubError as exc:
            self.problems.append(f"{name}: {exc}")
            return empty

    def look_at_policies(self) -> None:
        """Note which policies do not exist; those of providers are looked up when they play."""
        for name in self._experiment.question.policies:
            cell = next(cell for cell in self._experiment.cells if cell.policy == name)
            try:
                policy = self._request(cell).policy
                if not isinstance(policy, Provided):
                    policy.identify()
            except EnvHubError as exc:
                self.problems.append(f"{name}: {exc}")

    def _is_here(self, name: str, cell: Cell) -> bool:
        """Whether a benchmark's code is on this machine and may run; notes what is missing."""
        ref = read_reference(self._experiment.ref(cell))
        if not isinstance(ref, HubRef):
            return True
        decision = decide(
            ref,
            endpoint(),
            Ledger().entries(),
            trust_remote_code=self._options.trust_remote_code,
            allow_unpinned=self._options.allow_unpinned,
        )
        if isinstance(decision, Refused):
            self.refused.append(f"{name}: {refusal(ref, decision)}")
        if not ref.pinned or store.load(ref.repo_id, ref.commit) is None:
            self.downloads.append(f"{name}: {ref}")
            return False
        return not isinstance(decision, Refused)

    def _measure(self, empty: Column, cells: list[Cell]) -> Column:
        """Load the benchmark's code, and look for earlier runs or play probes."""
        request = self._request(cells[0])
        source = find_source(request.ref, request.options, message=self._watcher.message)
        spec = WorkerSpec(source, request.env_args, request.limits, request.max_steps)
        choice = request.options.runtime
        declared, pins = requirements_of(source, None, choice)
        if choice != "here" and find_unmet(declared, pins):
            self.builds.append(f"{empty.benchmark}: its requirements are not installed here")
            return empty
        benchmark = describe(replace(spec, env_vars=request.options.env_vars), choice).benchmark
        if benchmark.runtime is not None and choice != "here":
            declared, pins = requirements_of(source, benchmark, choice)
            if find_unmet(declared, pins):
                self.builds.append(f"{empty.benchmark}: its pins are not installed here")
        chosen = select(benchmark, request.suites, request.tasks)
        plans = (
            make_plan(
                benchmark,
                chosen,
                episodes=self._request(cell).episodes,
                seeding=DEFAULT_SEEDING,
            )
            for cell in cells
        )
        column = replace(
            empty,
            episodes=sum(len(plan.episodes) for plan in plans),
            memory_mb=benchmark.memory_mb,
        )
        runs = list(self._earlier(benchmark.name))
        if runs:
            return _timed(column, runs, f"from {len(runs)} earlier runs")
        if any(text.startswith(f"{empty.benchmark}:") for text in self.builds):
            return column
        return self._probe(column, cells, next(iter(chosen.values()))[0].name)

    def _request(self, cell: Cell) -> EvalRequest:
        return cell_request(self._experiment, cell, self._options)

    def _earlier(self, benchmark: str) -> Iterator[Run]:
        """Yield earlier runs of the benchmark with a policy of the experiment."""
        named = {self._experiment.policy_text(cell) for cell in self._experiment.cells}
        places = [*self._around.glob("*/run.json"), *self._around.glob("*/*/run.json")]
        for place in sorted(places, key=lambda path: -path.stat().st_mtime)[:_MOST_RUNS]:
            try:
                run = open_run(place.parent).keep_records()
            except EnvHubError:  # of somebody else, or damaged: it says nothing of the time
                continue
            info = run.run_info
            if info.benchmark.name == benchmark and info.policy.ref in named and run.records():
                yield run

    def _probe(self, column: Column, cells: list[Cell], task: str) -> Column:
        """Play two episodes with the first policy that can be made."""
        for cell in cells:
            with scratch_directory() as place:
                request = replace(
                    self._request(cell),
                    tasks=(task,),
                    episodes=_PROBES,
                    instructions={},
                    workers=1,
                    retries=0,
                    out=place / "probe",
                )
                self._watcher.progress(f"{column.benchmark}: {_PROBES} probes with {cell.policy}.")
                try:
                    run = start_run(request, self._watcher).keep_records()
                except EnvHubError as exc:
                    self.problems.append(f"{cell.policy}: {exc}")
                    continue
                return _timed(column, [run], f"from {_PROBES} probes with {cell.policy}")
        return column


def _timed(column: Column, runs: list[Run], source: str) -> Column:
    seconds = [record.seconds for run in runs for record in run.records()]
    sizes = [_size(run.directory) / len(run.records()) for run in runs]
    return replace(column, seconds=mean(seconds), disk=mean(sizes), source=source)


def _size(directory: Path) -> int:
    """The bytes of a run's records and actions."""
    places = [directory / "episodes.jsonl", *(directory / "actions").glob("*.npy")]
    return sum(os.stat(place).st_size for place in places)  # noqa: PTH116 - thousands of them
