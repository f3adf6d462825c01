"""The table of a run, as plain text: rates with their intervals. Pure."""

from typing import TYPE_CHECKING

from envhub.text import GAP, align

if TYPE_CHECKING:  # a summary renders itself with this module
    from envhub.results.summary import Line, Summary

WIDTH = 80
"""Columns, where it is not known how many there are."""
_BAR = 20
_NAME, _BARS, _RETURN, _STEPS, _ERRORS = 0, 3, 5, 6, 7
"""The columns that make room in a narrow table; their places in `HEAD`."""
_TEXTS = (_NAME, _BARS, _ERRORS)
"""The columns that are aligned to the left."""
_LONG = 1e8
"""Returns from here on are written with an exponent."""
_INDENT = " " * 4


def render(summary: "Summary", width: int = WIDTH) -> str:
    """Render the rates with their intervals, by task, by suite and overall.

    Args:
        summary: The results.
        width: The columns that the table may take. The bar goes first; then errors get lines of
            their own, and names that are too long; at last steps and returns go.
    """
    several = len(summary.suites) > 1
    rows: list[tuple[str, ...]] = [HEAD]
    rows += [
        row(f"{line.suite}/{line.task}" if several else str(line.task), line)
        for line in summary.tasks
    ]
    ruled = {len(rows)}
    if several:
        rows.extend(row(str(line.suite), line) for line in summary.suites)
        ruled.add(len(rows))
    rows.append(row("overall", summary.overall))
    return "\n".join(_fit(rows, ruled, width))


HEAD = ("", "success", "95 % interval", "", "episodes", "return", "steps", "errors")


def row(name: str, line: "Line") -> tuple[str, ...]:
    """Return the cells of a line; empty or a dash where there is nothing to show."""
    has_interval = line.rate is not None and line.ci_low is not None and line.ci_high is not None
    errors = f"{line.errors} env" if line.errors else ""
    if line.policy_errors:
        errors = ", ".join(filter(None, (errors, f"{line.policy_errors} policy")))
    if line.errors and line.rate_worst is not None and line.rate_best is not None:
        errors += f" ({line.rate_worst:.0%} to {line.rate_best:.0%} with them)"
    return (
        name,
        f"{line.rate:.1%}" if line.rate is not None else "-",
        f"{line.ci_low:.1%} - {line.ci_high:.1%}" if has_interval else "-",
        _bar(line),
        str(line.n),
        _return(line.mean_return),
        f"{line.mean_steps:.1f}" if line.mean_steps is not None else "-",
        errors,
    )


def _return(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < _LONG else f"{value:.3e}"


def _bar(line: "Line") -> str:
    if line.rate is None:
        return ""
    full = round(line.rate * _BAR)
    return "█" * full + "·" * (_BAR - full)


def _fit(rows: list[tuple[str, ...]], ruled: set[int], width: int) -> list[str]:
    """Lay the rows out in the first of several ways that is not too wide."""
    for kept in (_without(), _without(_BARS), _without(_BARS, _ERRORS)):
        widths = _widths(rows, kept)
        if _total(widths) <= width:
            return _lines(rows, ruled, kept, widths)
    for more in ((), (_STEPS,), (_STEPS, _RETURN)):
        kept = _without(_BARS, _ERRORS, *more)
        widths = _widths(rows, kept)
        room = width - _total({**widths, _NAME: 0})
        if room >= len("overall"):
            break
    names = [len(cells[_NAME]) for cells in rows if len(cells[_NAME]) <= room]
    widths[_NAME] = max([*names, len("overall")])
    return _lines(rows, ruled, kept, widths)


def _without(*dropped: int) -> list[int]:
    return [column for column in range(len(HEAD)) if column not in dropped]


def _widths(rows: list[tuple[str, ...]], kept: list[int]) -> dict[int, int]:
    return {column: max(len(cells[column]) for cells in rows) for column in kept}


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _lines(
    rows: list[tuple[str, ...]], ruled: set[int], kept: list[int], widths: dict[int, int]
) -> list[str]:
    """Align the columns, numbers to the right, with a rule before each row in `ruled`.

    A name that is too wide, and errors without a column, have a line of their own.
    """
    fitting = [name if len(name) <= widths[_NAME] else "" for name, *_ in rows]
    shown = [
        [name, *(cells[column] for column in kept[1:])]
        for name, cells in zip(fitting, rows, strict=True)
    ]
    numbers = [place for place, column in enumerate(kept) if column not in _TEXTS]
    lines: list[str] = []
    for index, (cells, line) in enumerate(zip(rows, align(shown, numbers), strict=True)):
        if index in ruled:
            lines.append("─" * _total(widths))
        if cells[_NAME] != fitting[index]:
            lines.append(cells[_NAME])
        lines.append(line)
        if _ERRORS not in kept and cells[_ERRORS] and index:
            lines.append(f"{_INDENT}errors: {cells[_ERRORS]}")
    return lines
