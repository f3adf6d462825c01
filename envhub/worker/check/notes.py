"""What an inspection notes. Runs in the worker."""

from envhub.tracebacks import place_of
from envhub.wire.messages import Probed, TraceStep

_MAX_TEXT = 2000
"""Characters of what was seen; the rest of an exception's text helps nobody."""


class Notes:
    """The outcome of checks, by their names, and the figures of an inspection."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.figures: dict[str, float] = {}
        self.trace: list[TraceStep] = []
        self._passed: dict[str, None] = {}

    def judge(self, check: str, problem: str | None) -> bool:
        """Note what is wrong, None if nothing is; the first problem of a check counts.

        Returns:
            Whether nothing was wrong, here and before.
        """
        if problem is not None:
            self.failed.setdefault(check, shortened(problem))
        self._passed[check] = None
        return check not in self.failed

    def skip(self, check: str, reason: str) -> None:
        """Note why there is nothing to check."""
        self.skipped[check] = reason

    def reply(self, number: int) -> Probed:
        """Return the answer to the request of that number."""
        passed = tuple(name for name in self._passed if name not in self.failed)
        judged = self._passed
        skipped = {name: why for name, why in self.skipped.items() if name not in judged}
        return Probed(number, passed, self.failed, skipped, self.figures, self.trace)


def describe(exc: BaseException) -> str:
    """Say what was raised, and where in the author's code."""
    place = place_of(exc)
    text = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return f"{text} ({place})" if place else text


def shortened(text: str) -> str:
    """Make a text fit into a message; surrogates, which UTF-8 lacks, are escaped."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= _MAX_TEXT else clean[: _MAX_TEXT - 3] + "..."
