"""Aborts a run in which no process can be started any more, or no episode has ever worked."""

from typing import Literal

from envhub.errors import ContractError, RunAborted, WorkerError

_STARTS = 3
"""The number of failed starts in a row that abort a run."""

_ALIKE = 12
"""The number of attempts, from the first on, whose identical failure aborts a run."""

Process = Literal["worker", "policy"]


class CircuitBreaker:
    """Counts failures, and aborts the run when there are too many."""

    def __init__(self) -> None:
        self._failures: list[str] | None = []
        self._starts: dict[Process, int] = {"worker": 0, "policy": 0}

    def worked(self) -> None:
        """Note that an episode was played to its end."""
        self._failures = None
        self._starts = {"worker": 0, "policy": 0}

    def started(self, process: Process) -> None:
        """Note that a worker or the policy was started."""
        self._starts[process] = 0

    def not_started(self, process: Process, error: WorkerError | ContractError) -> None:
        """Note that a worker or the policy could not be started.

        Raises:
            RunAborted: Several starts in a row failed.
        """
        self._starts[process] += 1
        if self._starts[process] >= _STARTS:
            raise RunAborted(f"No {process} can be started any more. {error}") from error

    def failed(self, error: WorkerError | ContractError) -> None:
        """Note that an attempt has failed; a failure of the policy is a result, and not counted.

        Raises:
            RunAborted: No attempt ever worked, and every failure of the env was the same.
        """
        if self._failures is None or getattr(error, "where", "env") == "policy":
            return
        self._failures.append(getattr(error, "problem", str(error)))
        attempts = len(self._failures)
        if attempts >= _ALIKE and len(set(self._failures)) == 1:
            raise RunAborted(
                f"The first {attempts} attempts failed with the same error. {error}"
            ) from error
