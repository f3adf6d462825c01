"""The one rule for when an episode ends and whether it succeeded. Pure."""

from collections.abc import Sequence

from envhub.errors import ContractError
from envhub.records import End
from envhub.types import Task

_MAX_RETURN = 1e100
"""A return beyond it is useless: the mean of several might not be finite."""


class Outcome:
    """How an episode has gone so far.

    An episode ends when the env terminates or truncates it, at the task's horizon, or, where the
    task says `once`, at its first success. Whether it succeeded follows from the task's rule:
    `once` and `ever`: some step reported success; `at_end`: the last step did.
    """

    def __init__(self, task: Task) -> None:
        self.until_success = task.success == "once"
        """Whether the first success ends the episode."""
        self.steps = 0
        """Steps taken."""
        self.left = task.horizon
        """Steps to the horizon."""
        self.ended = False
        """Whether it is over."""
        self.return_ = 0.0
        self.rewards: list[float] = []
        self.successes: list[bool | None] = []
        """As each step reported it; None where it did not."""
        self.terminated = False
        self.truncated = False
        self._at_end = task.success == "at_end"

    def add(
        self,
        rewards: Sequence[float],
        successes: Sequence[bool | None],
        *,
        terminated: bool,
        truncated: bool,
    ) -> None:
        """Take in steps; the flags are those of the last one.

        Raises:
            ContractError: A reward is not finite, or they add up to too much.
        """
        total = self.return_
        for index, reward in enumerate(rewards):
            # One after the other: a sum of partial sums would differ in its last bits.
            total += reward
            if not abs(total) <= _MAX_RETURN:
                step = self.steps + index
                raise ContractError(f"The env gave the reward {reward} at step {step}.")
        self.return_ = total
        self.rewards.extend(rewards)
        self.successes.extend(successes)
        self.terminated, self.truncated = terminated, truncated
        self.steps += len(rewards)
        self.left -= len(rewards)
        self.ended = terminated or truncated or self._won() or self.left <= 0

    @property
    def end(self) -> End:
        """What ended it."""
        if self._won():
            return "success"
        return "terminated" if self.terminated else "truncated"

    @property
    def success(self) -> bool | None:
        """Whether it succeeded; None if the env never said."""
        if all(success is None for success in self.successes):
            return None
        return self.successes[-1] is True if self._at_end else True in self.successes

    @property
    def success_step(self) -> int | None:
        """The number of steps after which the first success was reported."""
        return self.successes.index(True) + 1 if True in self.successes else None

    def _won(self) -> bool:
        return self.until_success and bool(self.successes) and self.successes[-1] is True
