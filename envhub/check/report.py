"""What the checks found, as values, JSON, and lines for a card."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from envhub.check.checks import CHECKS, Check
from envhub.errors import UsageError
from envhub.files import write_whole

Status = Literal["passed", "failed", "skipped"]

FIGURES = {
    "make_s": ("make", "{:.2f} s"),
    "first_reset_s": ("first reset", "{:.2f} s"),
    "reset_s": ("reset", "{:.2f} s"),
    "step_ms": ("step", "{:.1f} ms"),
    "frame_ms": ("frame", "{:.1f} ms"),
    "memory_mb": ("memory", "{:.0f} MB"),
    "zero_rate": ("zero", "{:.0%}"),
    "random_rate": ("random", "{:.0%}"),
    "expert_rate": ("expert", "{:.0%}"),
}
"""What is measured, with its title in tables and how it is written."""

BEGIN, END = "<!-- envhub check -->", "<!-- /envhub check -->"
"""Around the part of a card that `envhub check --card` fills."""
_PART = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check for one task."""

    check: Check
    task: str
    status: Status
    seen: str = ""
    """What was seen, if it failed; why it did not apply, if it was skipped."""

    def __str__(self) -> str:
        """Say what was seen, why it matters and how to fix it."""
        check = self.check
        return (
            f"{check.name} ({check.severity}), task {self.task!r}\n"
            f"  seen: {self.seen}\n  why:  {check.why}\n  fix:  {check.fix}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks for the tasks that were inspected."""

    ref: str
    benchmark: str
    tasks: tuple[str, ...]
    quick: bool
    results: tuple[Result, ...]
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Per task: seconds to make and reset, milliseconds per step and frame, memory, rates."""
    declared_mb: int = 0
    """The `memory_mb` that the benchmark declares."""

    @property
    def failures(self) -> tuple[Result, ...]:
        """The checks that failed, errors first."""
        failed = [result for result in self.results if result.status == "failed"]
        return tuple(sorted(failed, key=lambda result: result.check.severity))

    @property
    def ok(self) -> bool:
        """Whether no check of severity `error` failed."""
        return all(result.check.severity != "error" for result in self.failures)

    @property
    def memory_mb(self) -> int:
        """The `memory_mb` to declare; 0 if it was not measured."""
        measured = [figures.get("memory_mb", 0.0) for figures in self.figures.values()]
        return memory_to_declare(max(measured, default=0.0))

    def result(self, name: str) -> tuple[Result, ...]:
        """Return the results of one check, one per task."""
        return tuple(result for result in self.results if result.check.name == name)

    def count(self, status: Status) -> int:
        """Count the checks of a status: failed for one task is failed, skipped means for all."""
        return sum(self.status(check.name) == status for check in CHECKS)

    def status(self, name: str) -> Status:
        """Return the status of a check over all tasks."""
        found = {result.status for result in self.result(name)}
        if "failed" in found:
            return "failed"
        return "passed" if "passed" in found else "skipped"

    @property
    def badge(self) -> str:
        """A line of Markdown for the card of the benchmark."""
        applied = self.count("passed") + self.count("failed")
        text = f"{self.count('passed')} of {applied} passed"
        color = "red" if not self.ok else "yellow" if self.failures else "brightgreen"
        address = f"https://img.shields.io/badge/{quote('envhub check')}-{quote(text)}-{color}"
        return f"![envhub check: {text}]({address})"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "ref": self.ref,
            "benchmark": self.benchmark,
            "ok": self.ok,
            "quick": self.quick,
            "tasks": list(self.tasks),
            "badge": self.badge,
            "memory_mb": {"declared": self.declared_mb, "to_declare": self.memory_mb},
            "figures": {task: dict(figures) for task, figures in self.figures.items()},
            "checks": [_row(result) for result in self.results],
        }


def memory_to_declare(measured_mb: float) -> int:
    """Return a `memory_mb` with room for a quarter more than was measured, in steps of 64 MB."""
    return 64 * -int(-1.25 * measured_mb // 64)


def fill_card(path: Path, report: Report) -> None:
    """Write the badge and the table between the two comments of a card.

    Raises:
        UsageError: The file does not have them, or cannot be written.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path} cannot be read: {exc}.") from exc
    part = f"{BEGIN}\n{card_lines(report)}\n{END}"
    filled, count = _PART.subn(lambda _: part, text, count=1)
    if not count:
        raise UsageError(f"{path} has no place for the results. Add the lines {BEGIN} and {END}.")
    write_whole(path, filled.encode())


def card_lines(report: Report) -> str:
    """The badge, and a table with a row per task."""
    titles, rows = figure_table(report)
    lines = [report.badge, "", _line(["task", *titles]), _line(["---"] * (len(titles) + 1))]
    return "\n".join(lines + [_line(row) for row in rows])


def figure_table(report: Report) -> tuple[list[str], list[list[str]]]:
    """The figures as titles and rows of text, without columns that no task has."""
    keys = [key for key in FIGURES if any(key in row for row in report.figures.values())]
    rows = [
        [task, *(FIGURES[key][1].format(row[key]) if key in row else "-" for key in keys)]
        for task, row in report.figures.items()
    ]
    return [FIGURES[key][0] for key in keys], rows


def _row(result: Result) -> dict[str, Any]:
    check = result.check
    row = {"name": check.name, "group": check.group, "severity": check.severity}
    row |= {"task": result.task, "status": result.status, "seen": result.seen}
    if result.status == "failed":
        row |= {"rule": check.rule, "why": check.why, "fix": check.fix}
    return row


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
