"""Aborts a run in which no process can be started any more, or no episode has ever worked."""

from collections import Counter
from typing import Literal

from envhub.errors import ContractError, RunAborted, WorkerError

_STARTS = 3
"""The number of failed starts in a row that abort a run."""

MAX_ERRORS = 12
"""The number of attempts in a row whose identical failure aborts a run, unless one has worked."""

Process = Literal["worker", "policy"]


class CircuitBreaker:
    """Counts failures, and aborts the run when there are too many."""

    def __init__(self, max_errors: int = MAX_ERRORS, *, worked: bool = False) -> None:
        self._max_errors = max_errors
        self._last: tuple[str, str] | None = None
        self._alike = 0
        self._worked = worked
        self._starts: Counter[tuple[Process, object]] = Counter()

    def worked(self, runner: object = None) -> None:
        """Note that an episode was played to its end, by one of the policy's processes."""
        self._worked = True
        self.started("worker")
        self.started("policy", runner)

    def started(self, process: Process, runner: object = None) -> None:
        """Note that a worker, or the policy in one of its processes, was started."""
        self._starts[process, runner] = 0

    def not_started(
        self, process: Process, error: WorkerError | ContractError, runner: object = None
    ) -> None:
        """Note that a worker, or the policy in one of its processes, could not be started.

        Raises:
            RunAborted: Several starts in a row failed, whatever the policy's other processes do.
        """
        self._starts[process, runner] += 1
        if self._starts[process, runner] >= _STARTS:
            raise RunAborted(f"No {process} can be started any more. {error}") from error

    def failed(self, error: WorkerError | ContractError) -> None:
        """Note that an attempt has failed, in the env or in the policy.

        Raises:
            RunAborted: No attempt ever worked, and the last ones failed with the same error.
        """
        if self._worked:
            return
        failure = getattr(error, "where", "env"), getattr(error, "problem", str(error))
        self._alike = self._alike + 1 if failure == self._last else 1
        self._last = failure
        if self._alike >= self._max_errors:
            raise RunAborted(
                f"No episode was played to its end, and {self._alike} attempts in a row failed "
                f"with the same error; --max-errors allows more. {error}"
            ) from error
