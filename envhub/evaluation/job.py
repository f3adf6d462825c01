"""What an engine is to do, and how far it has come."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.evaluation.plan import Plan
from envhub.records import Episode
from envhub.types import Benchmark, Limits, WorkerSpec


@dataclass(frozen=True, slots=True)
class Job:
    """Which episodes are evaluated, and how."""

    spec: WorkerSpec
    """What the benchmark's workers are started from."""
    benchmark: Benchmark
    plan: Plan
    episodes: tuple[Episode, ...]
    """Those of the plan that are still to be run."""
    policy: Any
    """A `PolicySource`, or a policy object of the caller's."""
    in_worker: bool
    """Whether the policy comes with EnvHub or the benchmark, so that workers can make it."""
    workers: int
    """0: everything in this process."""
    retries: int
    logs: Path | None = None

    @property
    def limits(self) -> Limits:
        """How long each request may take."""
        return self.spec.limits

    @property
    def shared(self) -> bool:
        """Whether workers have what the user's own code has."""
        return self.spec.confinement is None and self.spec.interpreter.kind == "here"


@dataclass(slots=True)
class Progress:
    """What the engine does now; read while it runs."""

    done: int = 0
    steps: int = 0
    opened: int = 0
    """Envs that were made."""
    slots: dict[int, str] = field(default_factory=dict)
    """What each slot is at."""
