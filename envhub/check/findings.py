"""The results of one task while it is inspected."""

from envhub.check.checks import BY_NAME, CHECKS
from envhub.check.report import FIGURES, Result, Status
from envhub.errors import printable
from envhub.wire.messages import Probed

_REQUIRED = frozenset({
    "loads", "env-made", "spaces-supported", "reset-works", "step-works", "observation-shape",
    "reopens",
})  # fmt: skip
"""Without these the other inspections could only fail too."""
_LARGEST = 1e12
"""Seconds, milliseconds or MB; a worker could claim anything."""
_READ = ("observation-keys", "observation-dtype")
"""Without these the other inspections may fail too."""


class Findings:
    """What was found about one task so far; the first result of a check counts."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.figures: dict[str, float] = {}
        self._found: dict[str, tuple[Status, str]] = {}
        self._left_out: set[str] = set()

    def add(self, probed: Probed) -> None:
        """Add what a worker found; names that it made up are left out."""
        good = {k: v for k, v in probed.figures.items() if k in FIGURES and 0 <= v < _LARGEST}
        self.figures |= good
        for name in probed.passed:
            self.passed(name)
        for name, seen in probed.failed.items():
            self.failed(name, seen)
        for name, reason in probed.skipped.items():
            self.skipped(name, reason)

    def passed(self, name: str) -> None:
        """Note that a check passed."""
        self._note(name, "passed", "")

    def failed(self, name: str, seen: str) -> None:
        """Note what a check saw; also if another inspection saw nothing wrong."""
        found, _ = self._found.get(name, ("passed", ""))
        if found != "failed" and name not in self._left_out:
            self._found.pop(name, None)
        self._note(name, "failed", seen)

    def skipped(self, name: str, reason: str) -> None:
        """Note why a check does not apply."""
        self._note(name, "skipped", reason)

    def leave_out(self, name: str, reason: str) -> None:
        """Note why a check does not apply, whatever inspections see."""
        self.skipped(name, reason)
        self._left_out.add(name)

    def judge(self, name: str, problem: str | None) -> None:
        """Note what is wrong, None if nothing is."""
        if problem is None:
            self.passed(name)
        else:
            self.failed(name, problem)

    def has_failed(self, *names: str) -> bool:
        """Whether one of these checks failed."""
        return any(name in self._found and self._found[name][0] == "failed" for name in names)

    @property
    def obstacle(self) -> str | None:
        """The first check that failed and that all others need."""
        return next(
            (c.name for c in CHECKS if c.name in _REQUIRED and self.has_failed(c.name)), None
        )

    def explains(self) -> bool:
        """Whether a failed check explains that a worker cannot answer another inspection."""
        return self.obstacle is not None or self.has_failed(*_READ, "close-works")

    def results(self) -> list[Result]:
        """Return a result for every check."""
        obstacle = self.obstacle or next((c.name for c in CHECKS if self.has_failed(c.name)), "")
        reason = f"Not run, because {obstacle} failed." if obstacle else "Nothing to check."
        every = ((check, self._found.get(check.name, ("skipped", reason))) for check in CHECKS)
        return [Result(check, self.task, status, seen) for check, (status, seen) in every]

    def _note(self, name: str, status: Status, seen: str) -> None:
        if name in BY_NAME:
            self._found.setdefault(name, (status, printable(seen)))
