"""When a run gives up: nothing can be started any more, or nothing has ever worked."""

from typing import Literal

from envhub.errors import ContractError, RunAborted, WorkerError

_STARTS = 3
"""Failed starts in a row."""

_ALIKE = 12
"""Failed attempts in a row from the start, all alike."""

What = Literal["worker", "policy"]


class CircuitBreaker:
    """Counts failures until there are too many."""

    def __init__(self) -> None:
        self._failures: list[str] | None = []
        self._starts: dict[What, int] = {"worker": 0, "policy": 0}

    def worked(self) -> None:
        """An episode was played to its end."""
        self._failures = None
        self._starts = {"worker": 0, "policy": 0}

    def started(self, what: What) -> None:
        """One was started."""
        self._starts[what] = 0

    def not_started(self, what: What, error: WorkerError | ContractError) -> None:
        """One could not be started.

        Raises:
            RunAborted: So it was several times in a row.
        """
        self._starts[what] += 1
        if self._starts[what] >= _STARTS:
            raise RunAborted(f"No {what} can be started any more. {error}") from error

    def failed(self, error: WorkerError | ContractError) -> None:
        """An attempt has failed; a policy that does is a result.

        Raises:
            RunAborted: Nothing ever worked, and the env failed alike in every attempt.
        """
        if self._failures is None or getattr(error, "where", "env") == "policy":
            return
        self._failures.append(getattr(error, "problem", str(error)))
        tried = len(self._failures)
        if tried >= _ALIKE and len(set(self._failures)) == 1:
            raise RunAborted(f"The first {tried} attempts failed alike. {error}") from error
