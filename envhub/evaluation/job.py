"""What an engine is to do, and how far it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envhub.evaluation.plan import Plan
from envhub.records import Episode
from envhub.types import (
    HERE,
    Benchmark,
    Confinement,
    FileSource,
    Interpreter,
    Limits,
    Source,
    Value,
)


@dataclass(frozen=True, slots=True)
class Job:
    """What is evaluated, and how."""

    source: Source
    benchmark: Benchmark
    env_args: Mapping[str, Value]
    plan: Plan
    episodes: tuple[Episode, ...]
    """Those of the plan that are still to be run."""
    policy: Any
    """A `PolicySource`, or a policy object of the caller's."""
    beside: bool
    """Whether the policy comes with EnvHub or the benchmark, so that workers can make it."""
    workers: int
    """0: everything in this process."""
    limits: Limits
    retries: int
    logs: Path | None = None
    interpreter: Interpreter = HERE
    """What the benchmark's workers run on."""

    @property
    def file(self) -> FileSource | None:
        """The benchmark's file, if it is one."""
        return self.source if isinstance(self.source, FileSource) else None

    @property
    def loadable(self) -> FileSource | None:
        """The benchmark's file, if it may be loaded outside of its workers."""
        return None if self.confinement else self.file

    @property
    def shared(self) -> bool:
        """Whether workers have what the user's own code has."""
        return self.confinement is None and self.interpreter.kind == "here"

    @property
    def confinement(self) -> Confinement | None:
        """What the benchmark's code is kept from."""
        return self.file.confinement if self.file else None


@dataclass(slots=True)
class Progress:
    """What the engine does now; read while it runs."""

    done: int = 0
    steps: int = 0
    opened: int = 0
    """Envs that were made."""
    slots: dict[int, str] = field(default_factory=dict)
    """What each slot is at."""
