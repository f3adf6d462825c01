"""The job of an engine, and its progress."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envhub.declarations import Benchmark
from envhub.errors import WorkerError
from envhub.evaluation.breaker import MAX_ERRORS
from envhub.evaluation.places import Share
from envhub.evaluation.plan import Plan
from envhub.evaluation.supply import Supply
from envhub.options import Limits
from envhub.policies.kinds import Factory, PolicyKind
from envhub.records import Episode
from envhub.types import HERE, Batch, FileSource, Interpreter, WorkerSpec


@dataclass(frozen=True, slots=True)
class Job:
    """The episodes to run, and how to run them."""

    spec: WorkerSpec
    """How the benchmark's workers are started."""
    benchmark: Benchmark
    plan: Plan
    episodes: tuple[Episode, ...]
    """The episodes of the plan that are still to be run."""
    policy: PolicyKind
    workers: int
    """0: everything in this process."""
    retries: int
    max_errors: int = MAX_ERRORS
    """Equal errors in a row, before any episode has worked, that abort the run."""
    worked: bool = False
    """Whether an episode of the run was played to its end before, as in a resumed run."""
    logs: Path | None = None
    policy_interpreter: Interpreter = HERE
    """The interpreter of the policy's processes, unless workers make the policy."""
    policy_devices: tuple[str | None, ...] = (None,)
    """The GPU of each process of the policy; None: those that the user's variables say."""
    batch: Batch = 1
    """The rows of every call of a policy that declares none."""
    ignore_conventions: bool = False
    """Whether a policy that was trained with other conventions plays all the same."""
    broken: Mapping[str, WorkerError] = field(default_factory=dict)
    """The tasks whose envs cannot be made, and why."""
    first_leaves: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    """The leaves that the reset of an episode fills, None: all, if it is not for the policy."""

    share: Share | None = None
    """Its places for workers among those of an experiment; None: as many as there are slots."""
    supply: Supply | None = None
    """Gives further episodes of the plan while the engine runs; None: there are no others."""

    @property
    def factory(self) -> Factory:
        """What is loaded where the policy acts."""
        return self.policy.factory(self.benchmark, self.spec.source)

    @property
    def in_worker(self) -> bool:
        """Whether workers can make the policy, since it belongs to EnvHub or the benchmark."""
        return self.policy.acts_in == "worker"

    @property
    def asks_for_repeat(self) -> bool:
        """Whether an env is reset once more at the end, to see whether it begins as before.

        Benchmarks that are declared have `envhub check` for that; a file with `make_env` was often
        written for a loop that records nothing.
        """
        file = isinstance(self.spec.source, FileSource) and self.benchmark.make == ":make_env"
        return file and bool(self.workers)

    def playable(self, episodes: Iterable[Episode]) -> tuple[Episode, ...]:
        """Return those of the episodes whose envs can be made."""
        return tuple(episode for episode in episodes if episode.task not in self.broken)

    @property
    def limits(self) -> Limits:
        """The time limits of requests to workers."""
        return self.spec.limits

    @property
    def shared(self) -> bool:
        """Whether workers run unconfined in the policy's interpreter, so that they can load it."""
        interpreters = {self.spec.interpreter.kind, self.policy_interpreter.kind}
        return self.spec.confinement is None and interpreters == {"here"}


@dataclass(slots=True)
class Progress:
    """The progress of an engine; read while it runs."""

    done: int = 0
    steps: int = 0
    opened: int = 0
    """Envs that were made."""
    slots: dict[int, str] = field(default_factory=dict)
    """What each slot is doing."""
