"""The table of a run, as plain text: rates with their intervals. Pure."""

from envhub.results.summary import Line, Summary

_BAR = 20


def render(summary: Summary) -> str:
    """Render the rates with their intervals, by task, by suite and overall."""
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
    return "\n".join(_aligned(rows, ruled))


HEAD = ("", "success", "95 % interval", "", "episodes", "return", "steps", "errors")


def row(name: str, line: Line) -> tuple[str, ...]:
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
        f"{line.mean_return:.2f}" if line.mean_return is not None else "-",
        f"{line.mean_steps:.1f}" if line.mean_steps is not None else "-",
        errors,
    )


def _bar(line: Line) -> str:
    if line.rate is None:
        return ""
    full = round(line.rate * _BAR)
    return "█" * full + "·" * (_BAR - full)


def _aligned(rows: list[tuple[str, ...]], ruled: set[int]) -> list[str]:
    """Align the columns, numbers to the right, with a rule before each row in `ruled`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for index, texts in enumerate(rows):
        cells = [
            f"{text:<{width}}" if column in (0, 3, 7) else f"{text:>{width}}"
            for column, (text, width) in enumerate(zip(texts, widths, strict=True))
        ]
        if index in ruled:
            lines.append("─" * sum(widths, 2 * (len(widths) - 1)))
        lines.append("  ".join(cells).rstrip())
    return lines
