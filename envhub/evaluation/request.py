"""The request for an evaluation, and the receiver of its progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envhub.errors import PluginError
from envhub.evaluation.breaker import MAX_ERRORS
from envhub.evaluation.engine import OnRecord
from envhub.evaluation.job import Job, Progress
from envhub.evaluation.latency import LatencyRequest
from envhub.evaluation.perturbations import Strength
from envhub.evaluation.places import Places
from envhub.evaluation.plan import Plan
from envhub.evaluation.runner_pool import Findings
from envhub.options import Argument, Limits, Processes, SourceOptions
from envhub.plugins import Plugins
from envhub.policies.kinds import Builtin, PolicyKind
from envhub.records import EpisodeRecord
from envhub.results.require import Requirement
from envhub.results.run import Run
from envhub.run_info import LatencyPlanInfo, ShardInfo
from envhub.seeding import Seeding
from envhub.types import Batch

if TYPE_CHECKING:
    from envhub.evaluation.prepare import Prepared


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to evaluate, and how."""

    ref: str
    policy: PolicyKind = field(default_factory=lambda: Builtin("random"))
    policy_python: str | None = None
    """The interpreter of the policy's own process; None: this one, or as its file declares."""
    policy_processes: Processes = 1
    batch: Batch = 1
    """The rows of every call of a policy that declares none; "any" in runs that began so."""
    suites: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    episodes: int | None = None
    seed: int = 0
    seeding: Seeding | None = None
    """None: as a run was begun; of a new one, seeds by task."""
    workers: int | None = None
    """None: as many as cores and free memory allow; 0: none, run everything in this process."""
    max_steps: int | None = None
    instructions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts that replace the benchmark's, by task."""
    latency: LatencyRequest | LatencyPlanInfo | None = None
    """How late the policy's actions are; None: the world waits for it."""
    perturb: Mapping[str, Strength] = field(default_factory=dict)
    """How the benchmark is changed, by the names of perturbations."""
    env_args: Mapping[str, Argument] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    retries: int = 1
    max_errors: int = MAX_ERRORS
    """Equal errors in a row, before any episode has worked, that abort the run."""
    out: Path | None = None
    runs: Path = Path("runs")
    """Where the run's directory is made if `out` is None."""
    options: SourceOptions = field(default_factory=SourceOptions)
    ignore_conventions: bool = False
    """Whether to run a policy that was trained with other conventions than the benchmark's."""
    baselines: tuple[str, ...] = ()
    """Policies of EnvHub or of the benchmark that are to be played in the same episodes."""
    shard: ShardInfo | None = None
    """The share of the plan that is played here; None: all of it."""
    requirements: tuple[Requirement, ...] = ()
    """What the results must meet; that their names exist is known before the first episode."""
    places: Places | None = None
    """The places for workers that it shares with the other cells of an experiment."""
    order: int = 0
    """Which comes first among those that share places: the lowest."""
    player: "Player | None" = field(default=None, compare=False)
    """Makes what plays the episodes instead of this machine's engine, such as a cluster."""
    observers: Plugins = field(default_factory=Plugins, compare=False)
    """The loggers that were asked for; the installed observers are loaded before it is played."""
    videos_follow: bool = False
    """Whether the caller draws videos of a run that was played to its end, and tells observers of
    the end afterwards."""


class Playing(Protocol):
    """What a run needs of an engine, here or on other machines."""

    progress: Progress
    stopping: bool
    """Set this to finish the episodes under way and start no others."""

    @property
    def findings(self) -> Findings:
        """What playing has shown of the policy."""
        ...

    @property
    def waiting(self) -> int:
        """How many episodes nobody has begun."""
        ...

    def run(self) -> None:
        """Play until every episode has a record, or until `stopping` has taken effect."""
        ...


class Player(Protocol):
    """Plays episodes elsewhere."""

    def start(
        self, prepared: "Prepared", job: Job, on_record: OnRecord, on_poll: Callable[[], None]
    ) -> Playing:
        """Return what plays the episodes of a job once it is run.

        Args:
            prepared: The evaluation, whose `run.json` the other machines must agree with.
            job: The episodes.
            on_record: Called for every episode that has ended, with its actions and steps.
            on_poll: Called a few times a second.
        """
        ...


class Watcher(Protocol):
    """Receives the progress of a run."""

    def started(
        self, run: Run, plan: Plan, engine: Playing, before: Sequence[EpisodeRecord]
    ) -> None:
        """Called before the engine runs, with the records that are not played again."""
        ...

    def recorded(self, record: EpisodeRecord) -> None:
        """Called when an episode has been recorded."""
        ...

    def refresh(self) -> None:
        """Called a few times a second."""
        ...

    def message(self, text: str) -> None:
        """Called with something that the user should know."""
        ...

    def progress(self, text: str) -> None:
        """Called before something slow."""
        ...

    def warning(self, problem: PluginError) -> None:
        """Called when an observer failed; it is disabled for the rest of the run."""
        ...
