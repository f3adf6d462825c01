"""Playing an experiment: its cells one after another, with one set of places for workers.

Each cell is a run of its own, with an engine in a thread of its own. The next cell is prepared once
no more episodes wait than there are places; its workers start where the last episodes of the cells
before leave places. So no core is idle while a cell ends, and every record is as the cell's own
command makes it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from envhub.arguments import check_instructions
from envhub.errors import EnvHubError, PluginError, UsageError
from envhub.evaluation.latency import LatencyRequest, parse_latency
from envhub.evaluation.perturbations import check_perturbations, find_perturbations
from envhub.evaluation.places import Places
from envhub.evaluation.plan import Plan
from envhub.evaluation.request import EvalRequest, Playing
from envhub.evaluation.run import continue_run
from envhub.machine import resources
from envhub.options import Limits, SourceOptions
from envhub.plugins import Plugins
from envhub.policies.find import read_policy
from envhub.policies.kinds import PolicyKind
from envhub.records import EpisodeRecord
from envhub.results.experiment import Cell, Experiment, write_experiment, write_failures
from envhub.results.matrix import Matrix, SeedRows, entries_of, make_matrix
from envhub.results.run import Run
from envhub.sources.find import find_source

_EVERY = 0.05
"""Seconds between looks at the cells under way."""
_GRACE = 20.0
"""Seconds for cells to end their workers, at a second Ctrl-C."""


class Onlooker(Protocol):
    """Receives the progress of an experiment, in the thread that plays it or in a cell's."""

    def began(self, cell: Cell, run: Run, engine: Playing, before: int) -> None:
        """Called when a cell begins to play, with the number of records that it has already."""
        ...

    def recorded(self, cell: Cell, record: EpisodeRecord) -> None:
        """Called when an episode has been recorded."""
        ...

    def ended(self, cell: Cell, outcome: "Run | EnvHubError") -> None:
        """Called when a cell has ended."""
        ...

    def message(self, cell: Cell | None, text: str) -> None:
        """Called with something that the user should know."""
        ...

    def progress(self, cell: Cell | None, text: str) -> None:
        """Called before something slow."""
        ...

    def refresh(self) -> bool:
        """Called some twenty times a second; returns whether to begin no more episodes."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """What came of an experiment."""

    experiment: Experiment
    runs: dict[Cell, Run]
    failures: dict[Cell, EnvHubError]
    """The cells that could not be played."""

    def matrix(self, baseline: str | None = None, seeds: SeedRows = "pool") -> Matrix:
        """Return the rates of all cells, and their differences to the baseline.

        Args:
            baseline: The name of a policy; None: the experiment's.
            seeds: Whether seeds have rows, or are pooled.
        """
        chosen = baseline or self.experiment.question.baseline
        return make_matrix(entries_of(self.experiment), baseline=chosen, seeds=seeds)


def cell_request(
    experiment: Experiment,
    cell: Cell,
    options: SourceOptions,
    objects: Mapping[str, object] | None = None,
) -> EvalRequest:
    """Return the request of a cell: what its own command asks for.

    Args:
        experiment: The cell's.
        cell: The cell.
        options: How to get and protect the benchmark's code.
        objects: Policies of this program, by their names in the experiment.

    Raises:
        UsageError: Its policy's text names none.
    """
    asked: dict[str, Any] = dict(cell.options)
    limits = Limits(**asked.pop("timeout", {}))
    given = {
        name: asked[name]
        for name in ("episodes", "seeding", "max_steps", "retries", "max_errors", "env_args")
        if name in asked
    }
    if "runtime" in asked:
        options = replace(options, runtime=asked["runtime"])
    return EvalRequest(
        ref=experiment.ref(cell),
        policy=_policy(experiment, cell, (objects or {}).get(cell.policy)),
        policy_python=_interpreter(experiment, asked.get("policy_python")),
        policy_processes=asked.get("policy_processes", 1),
        suites=tuple(asked.get("suites", ())),
        tasks=tuple(asked.get("tasks", ())),
        seed=cell.seed,
        instructions=check_instructions("instructions", asked.get("instructions")),
        latency=_latency(asked.get("latency")),
        perturb=check_perturbations("perturb", asked.get("perturb")),
        limits=limits,
        out=cell.directory,
        options=options,
        ignore_conventions=asked.get("ignore_conventions", False),
        **given,
    )


def _policy(experiment: Experiment, cell: Cell, given: object) -> PolicyKind:
    named = experiment.policy_text(cell) if given is None else given
    return read_policy(named, cell.options.get("policy_args"), experiment.base)


def _latency(text: str | None) -> LatencyRequest | None:
    if text is None:
        return None
    asked = parse_latency(text)
    if len(asked) > 1:
        raise UsageError(f"A cell has one latency, found {text!r}: make a benchmark of each.")
    return asked[0]


def _interpreter(experiment: Experiment, text: str | None) -> str | None:
    """Return an interpreter, of whose path the experiment says where it begins."""
    if text is None or "/" not in text or text.startswith(("/", "~")):
        return text
    return str(experiment.base / text)


def check_sources(
    experiment: Experiment, options: SourceOptions, message: Callable[[str], None]
) -> None:
    """Find each benchmark before anything is played, its consent included.

    Raises:
        UsageError: One does not exist.
        RemoteCodeRefused: Nobody agreed to run the code of one.
        SourceError: One is not available.
    """
    for name in experiment.question.benchmarks:
        cell = next(cell for cell in experiment.cells if cell.benchmark == name)
        find_source(experiment.ref(cell), options, message=message)


def play_experiment(
    experiment: Experiment,
    options: SourceOptions,
    onlooker: Onlooker,
    *,
    workers: int | None = None,
    objects: Mapping[str, object] | None = None,
    observers: Plugins | None = None,
) -> Played:
    """Play the cells that are not complete; those that failed before are tried again.

    A cell that cannot be played costs only itself. At a KeyboardInterrupt all of them stop at once.

    Args:
        experiment: What to play.
        options: How to get and protect the code of benchmarks.
        onlooker: Receives the progress.
        workers: Those of all cells together; None: as many as cores and free memory allow.
        objects: Policies of this program, by their names in the experiment.
        observers: The loggers that were asked for.

    Raises:
        UsageError: A benchmark does not exist, or `workers` is 0.
        RemoteCodeRefused: Nobody agreed to run the code of a benchmark.
    """
    if workers == 0:
        raise UsageError("An experiment needs workers: --workers 0 is for single runs.")
    for cell in experiment.cells:
        # These say what is wrong before anything begins.
        _latency(cell.options.get("latency"))
        find_perturbations(check_perturbations("perturb", cell.options.get("perturb")))
    check_sources(experiment, options, lambda text: onlooker.message(None, text))
    write_experiment(experiment)
    write_failures(experiment, {})
    memory_mb = resources.memory_mb() if workers is None else None
    places = Places(workers or resources.cores(), memory_mb)
    shared = _Shared(places, workers, observers or Plugins())
    players = deque(
        _Player(experiment, cell, order, options, (objects or {}), shared, onlooker)
        for order, cell in enumerate(experiment.cells)
    )
    overlap = experiment.question.overlap and not objects
    played = Played(experiment, {}, {})
    _play(players, played, onlooker, places, overlap=overlap)
    return played


def _play(
    waiting: "deque[_Player]", played: Played, onlooker: Onlooker, places: Places, *, overlap: bool
) -> None:
    active: list[_Player] = []
    stopping = False
    try:
        while active or (waiting and not stopping):
            stopping = onlooker.refresh()
            for player in active:
                player.stop(stopping)
            if waiting and not stopping and _may_begin(active, places.count, overlap=overlap):
                active.append(waiting.popleft())
                active[-1].start()
            for player in [each for each in active if not each.is_alive()]:
                active.remove(player)
                _note(played, player)
            time.sleep(_EVERY)
    except BaseException:
        _abort(active)
        raise


def _note(played: Played, player: "_Player") -> None:
    """Keep what came of a cell, and tell of it.

    Raises:
        BaseException: What its thread raised, if that is no error of the cell.
    """
    match player.outcome:
        case Run() as run:
            played.runs[player.cell] = run
            player.onlooker.ended(player.cell, run)
        case EnvHubError() as error:
            played.failures[player.cell] = error
            told = {cell.directory.name: str(each) for cell, each in played.failures.items()}
            write_failures(played.experiment, told)
            player.onlooker.ended(player.cell, error)
        case BaseException() as exc:
            raise exc


def _may_begin(active: "Sequence[_Player]", places: int, *, overlap: bool) -> bool:
    """Whether to prepare the next cell: if the workers soon have nothing to do but it."""
    if not overlap:
        return not active
    if any(player.engine is None for player in active):  # is being prepared
        return False
    return sum(player.engine.waiting for player in active if player.engine) <= places


def _abort(active: "Sequence[_Player]") -> None:
    for player in active:
        player.aborted = True
    end = time.monotonic() + _GRACE
    for player in active:
        player.join(max(0.0, end - time.monotonic()))


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the cells have in common."""

    places: Places
    workers: int | None
    observers: Plugins


class _Player(threading.Thread):
    """Plays a cell, and is the receiver of its progress."""

    def __init__(
        self,
        experiment: Experiment,
        cell: Cell,
        order: int,
        options: SourceOptions,
        objects: Mapping[str, object],
        shared: _Shared,
        onlooker: Onlooker,
    ) -> None:
        super().__init__(name=cell.name, daemon=True)  # so that a second Ctrl-C ends the process
        self.cell = cell
        self.engine: Playing | None = None
        self.outcome: Run | BaseException | None = None
        self.stopping = self.aborted = False
        self.onlooker = onlooker
        self._ask: Callable[[], EvalRequest] = lambda: replace(
            cell_request(experiment, cell, options, objects),
            workers=shared.workers,
            places=shared.places,
            observers=shared.observers,
            order=order,
        )

    def run(self) -> None:
        try:
            self.outcome = continue_run(self._ask(), self.cell.directory, self)
        except BaseException as exc:
            self.outcome = exc

    def stop(self, stopping: bool) -> None:  # noqa: FBT001
        """Say whether to begin no more episodes."""
        self.stopping = stopping
        if stopping and self.engine is not None:
            self.engine.stopping = True

    # The receiver of the run's progress, called in its thread

    def started(
        self, run: Run, plan: Plan, engine: Playing, before: Sequence[EpisodeRecord]
    ) -> None:
        self.engine = engine
        self.onlooker.began(self.cell, run, engine, len(before))
        self.refresh()

    def recorded(self, record: EpisodeRecord) -> None:
        self.onlooker.recorded(self.cell, record)

    def refresh(self) -> None:
        if self.aborted:
            raise KeyboardInterrupt
        if self.stopping and self.engine is not None:
            self.engine.stopping = True

    def message(self, text: str) -> None:
        self.refresh()
        self.onlooker.message(self.cell, text)

    def progress(self, text: str) -> None:
        self.refresh()
        self.onlooker.progress(self.cell, text)

    def warning(self, problem: PluginError) -> None:
        said = f"{str(problem).rstrip('.')}; disabled for the rest of this run."
        self.onlooker.message(self.cell, said)


def new_directory(name: str, runs: Path = Path("runs")) -> Path:
    """Make a new directory for an experiment.

    Args:
        name: What its name begins with.
        runs: Where it is made.
    """
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:60] or "experiment"
    base = f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:  # several may begin in the same second
        directory = runs / (base if number == 1 else f"{base}-{number}")
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.mkdir()
        except FileExistsError:
            number += 1
        else:
            return directory
