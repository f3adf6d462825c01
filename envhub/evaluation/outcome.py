"""The one rule for when an episode ends and whether it succeeded. Pure."""

from collections.abc import Sequence

from envhub.declarations import Task
from envhub.errors import ContractError
from envhub.records import End

_MAX_RETURN = 1e100
"""A larger return is useless: the mean of several might not be finite."""


class Outcome:
    """The steps, return and success of an episode so far.

    An episode ends when the env terminates or truncates it, at the task's horizon, or, if the
    task's rule is `once`, at its first success. With the rules `once` and `ever` an episode
    succeeds if any step reported success, with `at_end` if the last step did.
    """

    def __init__(self, task: Task) -> None:
        self.until_success = task.success == "once"
        """Whether the first success ends the episode."""
        self.steps = 0
        """Steps taken."""
        self.left = task.horizon
        """Steps left to the horizon."""
        self.ended = False
        """Whether the episode has ended."""
        self.return_ = 0.0
        self.rewards: list[float] = []
        self.successes: list[bool | None] = []
        """The success that each step reported; None if it reported none."""
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
        """Add steps; the flags are those of the last step.

        Raises:
            ContractError: A reward is not finite, or the return is too large.
        """
        total = self.return_
        for index, reward in enumerate(rewards):
            # One by one: a sum of partial sums would differ in its last bits.
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
        """What ended the episode."""
        if self._won():
            return "success"
        return "terminated" if self.terminated else "truncated"

    @property
    def success(self) -> bool | None:
        """Whether the episode succeeded; None if the env never reported success."""
        if all(success is None for success in self.successes):
            return None
        return self.successes[-1] is True if self._at_end else True in self.successes

    @property
    def success_step(self) -> int | None:
        """The number of steps after which the first success was reported."""
        return self.successes.index(True) + 1 if True in self.successes else None

    def _won(self) -> bool:
        return self.until_success and bool(self.successes) and self.successes[-1] is True
