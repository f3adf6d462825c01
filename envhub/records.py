"""Planned and recorded episodes. Plain data."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Bounded where it is read: of a larger one, no float can be made."""
Seconds = Annotated[float, Meta(ge=0, le=1e300)]

Status = Literal["ok", "env_error", "policy_error", "timeout", "worker_died"]
End = Literal["success", "terminated", "truncated", "error"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One planned episode. The benchmark, the policy and these fields determine its outcome."""

    number: int
    """Its position in the plan; its file of actions has this name."""
    suite: str
    task: str
    index: int
    """Its index among the task's episodes."""
    seed: int
    init_state: int | None
    """Passed to the env's reset, for benchmarks that have stored initial states."""


@dataclass(frozen=True, slots=True)
class EpisodeError:
    """The error that ended an episode."""

    where: Literal["env", "policy", "worker"]
    type: str
    message: str
    step: Count
    """The number of steps taken before the error."""
    traceback: str | None = None
    """The traceback of the env's or the policy's own code, if it raised."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """How an episode ended: one line of `episodes.jsonl`."""

    suite: str
    task: str
    episode: Count
    seed: Count
    init_state: Count | None
    status: Status
    success: bool | None
    """None if the env never reported success, or the episode does not count."""
    success_step: Count | None
    """The number of steps after which the env first reported success."""
    end: End
    return_: float
    """The sum of the rewards; written as `return`."""
    steps: Count
    out_of_bounds: Count
    """The number of actions with a value outside the action space."""
    trace: str
    """A hash over actions, rewards and flags."""
    seconds: Seconds
    attempts: Count
    error: EpisodeError | None
    number: int
    """The episode's position in the plan."""
    description: str | None = None
    """The instruction that the env gave for this episode; None if it was the task's."""
    first_observation: str | None = None
    """A hash of what it began with; None in runs from before it was recorded."""
    first_leaves: tuple[str, ...] | None = None
    """The leaves of the observation that are in it; None: all."""
    calls: Count | None = None
    """With `--latency`: the calls of the policy whose results were taken."""
    held: Count | None = None
    """With `--latency`: the steps in which the robot was held still."""
    end_state: str | None = None
    """A hash of the env's state at the end; None if the env does not say it, or an error ended the
    episode."""

    @property
    def counts(self) -> bool:
        """Whether the episode is part of the rate: an env's error is not the policy's failure."""
        return self.status == "ok" or self.failed_by_policy

    @property
    def failed_by_policy(self) -> bool:
        """Whether the policy is at fault, so that the episode counts as a failure."""
        return self.error is not None and self.error.where == "policy"
