"""Episodes: as planned, and as they ended. Plain data."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "env_error", "policy_error", "timeout", "worker_died"]
End = Literal["success", "terminated", "truncated", "error"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One planned episode. With the benchmark and the policy it determines the outcome."""

    number: int
    """Its place in the plan; the name of its file of actions."""
    suite: str
    task: str
    index: int
    """Which of the task's episodes."""
    seed: int
    init_state: int | None
    """Passed to the env's reset, for benchmarks that have stored initial states."""


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """What went wrong in an episode."""

    where: Literal["env", "policy", "worker"]
    type: str
    message: str
    step: int
    """The number of steps that were taken before."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """How an episode ended: one line of `episodes.jsonl`."""

    suite: str
    task: str
    episode: int
    seed: int
    init_state: int | None
    status: Status
    success: bool | None
    """None if the env never reported one, or the episode did not count."""
    success_step: int | None
    """The number of steps after which the first success was reported."""
    end: End
    return_: float
    """Written as `return`."""
    steps: int
    out_of_bounds: int
    """The number of actions with a value outside the action space."""
    trace: str
    """A hash over actions, rewards and flags."""
    seconds: float
    attempts: int
    error: EpisodeError | None
    number: int
    """The episode's place in the plan."""

    @property
    def counts(self) -> bool:
        """Whether it is part of the rate: errors of the env are not the policy's failure."""
        return self.status == "ok" or self.failed_by_policy

    @property
    def failed_by_policy(self) -> bool:
        """Whether the policy is at fault; then it counts as a failure."""
        return self.error is not None and self.error.where == "policy"
