"""`envhub compare`: hold a run against another one, episode by episode."""

import json
from pathlib import Path

import click

from envhub.cli.options import debug_option, json_option, local_path
from envhub.errors import ExitCode, printable
from envhub.results.compare import ALPHA, Comparison, TaskComparison, compare
from envhub.results.paste import describe_policy
from envhub.results.run import Run, open_run

_HEAD = ("", "A", "B", "difference", "only A", "only B", "p", "adjusted")


class _Points(click.FloatRange):
    """Percentage points; click's own errors would call `x` no valid float range."""

    name = "number"


@click.command("compare")
@click.argument("a", metavar="A", callback=local_path)
@click.argument("b", metavar="B", callback=local_path)
@click.option(
    "--fail-if",
    type=click.Choice(["worse", "different", "not-better"]),
    help="End with exit code 1 if B is that.",
)
@click.option(
    "--margin",
    type=_Points(0, 100),
    metavar="POINTS",
    help="Say whether B is shown not to be worse by more than so many percentage points; with "
    "--fail-if worse, fail unless it is.",
)
@click.option("--unpaired", is_flag=True, help="Compare runs that did not play the same episodes.")
@json_option
@debug_option
def command(
    a: Path, b: Path, *, fail_if: str | None, margin: float | None, unpaired: bool, as_json: bool
) -> None:
    """Compare two runs: A is the reference, B the candidate.

    Episodes with the same task, seed and initial state are pairs. Whether B is better or worse is
    decided by McNemar's exact test over all pairs, at 5 %. Runs of different numbers of episodes
    are compared in what they have in common.

    \b
    Examples:
        envhub compare runs/baseline runs/mine
        envhub compare runs/released runs/new --fail-if worse --margin 2
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    first, second = open_run(a), open_run(b)
    found = compare(first, second, paired=not unpaired)
    allowed = None if margin is None else margin / 100
    if as_json:
        content = {"a": _describe(first), "b": _describe(second), **found.to_json()}
        if allowed is not None:
            content |= {"margin": allowed, "not_worse_by_margin": found.not_worse_by(allowed)}
        click.echo(json.dumps(content, indent=2))
    else:
        for name, run in (("A", first), ("B", second)):
            click.echo(printable(f"{name}: {' | '.join(_describe(run).values())}"))
        click.echo("\n" + printable(render(found)) + "\n")
        for line in conclude(found, allowed):
            click.echo(printable(line))
    if fail_if is not None and _failed(found, fail_if, allowed):
        raise SystemExit(ExitCode.FOUND)


def render(found: Comparison) -> str:
    """Render the tasks, and the mean over them, as a table."""
    rows = [_HEAD, *map(_row, found.tasks)]
    paired = found.paired
    rows.append(
        (
            "overall",
            f"{found.rate_a:.1%}",
            f"{found.rate_b:.1%}",
            _points(found.difference),
            str(found.only_a) if paired else "",
            str(found.only_b) if paired else "",
            _p(found.p),
            "",
        )
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            f"{text:<{width}}" if i == 0 else f"{text:>{width}}"
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(-1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def conclude(found: Comparison, margin: float | None) -> list[str]:
    """Return the sentences below the table."""
    interval = f"[{100 * found.ci_low:+.1f}, {100 * found.ci_high:+.1f}]"
    n = sum(task.n_b for task in found.tasks)
    if found.paired:
        how = f"exact McNemar, {n} pairs: {found.only_b} only B, {found.only_a} only A"
    else:
        n_a = sum(task.n_a for task in found.tasks)
        how = f"Fisher, unpaired: {n_a} episodes of A, {n} of B"
    amount = f"{_points(abs(found.difference)).lstrip('+')} points {interval}, p = {_p(found.p)}"
    if found.verdict == "undecided":
        amount = f"{_points(found.difference)} points {interval}, p = {_p(found.p)}"
        lines = [f"No difference is shown between A and B: {amount} ({how})."]
    else:
        lines = [f"B is {found.verdict} than A by {amount} ({how})."]
    if found.dropped:
        worst, best = _points(found.difference_worst), _points(found.difference_best)
        what = "1 pair does not" if found.dropped == 1 else f"{found.dropped} pairs do not"
        lines.append(
            f"{what} count, because an episode is missing or its env failed; with "
            f"{'it' if found.dropped == 1 else 'them'} the difference is {worst} to {best} points."
        )
    if found.p_tasks is not None:
        lines.append(f"For tasks like these: p = {_p(found.p_tasks)} (sign flips of the tasks).")
    if hopeless := _hopeless(found):
        lines.append(hopeless)
    if found.left_out:
        lines.append(f"Not compared: {', '.join(found.left_out)}.")
    if margin is not None:
        shown = "It is shown" if found.not_worse_by(margin) else "It is not shown"
        lines.append(f"{shown} that B is not worse than A by more than {100 * margin:g} points.")
    return lines


def _hopeless(found: Comparison) -> str | None:
    """Say so if no single task could show a difference, however it went."""
    most = max(task.n_b for task in found.tasks)
    needed = ALPHA / len(found.tasks)
    if not found.paired or len(found.tasks) == 1 or 2 / 2**most <= needed:
        return None
    return (
        f"With {most} pairs a task, no single one of {len(found.tasks)} tasks can show a "
        "difference; only all together can."
    )


def _failed(found: Comparison, fail_if: str, margin: float | None) -> bool:
    if fail_if == "worse" and margin is not None:
        return not found.not_worse_by(margin)
    if fail_if == "worse":
        return found.verdict == "worse"
    if fail_if == "different":
        return found.verdict != "undecided"
    return found.verdict != "better"


def _row(task: TaskComparison) -> tuple[str, ...]:
    return (
        task.task,
        f"{task.rate_a:.1%}",
        f"{task.rate_b:.1%}",
        _points(task.rate_b - task.rate_a),
        "" if task.only_a is None else str(task.only_a),
        "" if task.only_b is None else str(task.only_b),
        _p(task.p),
        "" if task.p_holm is None else _p(task.p_holm),
    )


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.1f}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _describe(run: Run) -> dict[str, str]:
    return {
        "run": str(run.directory),
        "benchmark": run.info["benchmark"]["ref"],
        "policy": describe_policy(run.info["policy"]),
    }
