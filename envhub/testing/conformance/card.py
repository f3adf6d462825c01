"""The part of a benchmark's card that `envhub check --card` fills."""

import re
from pathlib import Path

from envhub.errors import UsageError
from envhub.files import write_whole
from envhub.testing.conformance.report import FIGURES, Report

BEGIN, END = "<!-- envhub check -->", "<!-- /envhub check -->"
_PART = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


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


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
