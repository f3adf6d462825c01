"""`envhub compare`: hold a run against another one, episode by episode."""

import json
from pathlib import Path

import click

from envhub.cli.options import debug_option, json_option, local_path
from envhub.errors import ExitCode, printable
from envhub.results.compare import Comparison, TaskComparison, compare
from envhub.results.conclusion import conclude, p_value, points
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
@click.option("--html", callback=local_path, metavar="FILE", help="Write a page about it, too.")
@click.option("--unpaired", is_flag=True, help="Compare runs that did not play the same episodes.")
@json_option
@debug_option
def command(
    a: Path,
    b: Path,
    *,
    fail_if: str | None,
    margin: float | None,
    html: Path | None,
    unpaired: bool,
    as_json: bool,
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
    if html is not None:
        from envhub.results.report.page import report  # commands must start fast

        report(first, html, other=second, paired=not unpaired)
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
            points(found.difference),
            str(found.only_a) if paired else "",
            str(found.only_b) if paired else "",
            p_value(found.p),
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
        points(task.rate_b - task.rate_a),
        "" if task.only_a is None else str(task.only_a),
        "" if task.only_b is None else str(task.only_b),
        p_value(task.p),
        "" if task.p_holm is None else p_value(task.p_holm),
    )


def _describe(run: Run) -> dict[str, str]:
    return {
        "run": str(run.directory),
        "benchmark": run.run_info.benchmark.ref,
        "policy": describe_policy(run.run_info.policy),
    }
