"""`envhub compare`: hold a run against another one, episode by episode."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import click

from envhub.cli.matrix import is_matrix, read_matrix, show_matrix
from envhub.cli.options import debug_option, json_option, local_path
from envhub.cli.output import columns, echo_sentence, encodable
from envhub.errors import ExitCode, UsageError, printable
from envhub.results.comparable import CONDITIONS, describe_across, describe_told_apart
from envhub.results.compare import Comparison, TaskComparison, compare, compare_groups
from envhub.results.conclusion import conclude, conclude_groups, p_value, points
from envhub.results.matrix import SeedRows
from envhub.results.matrix_text import FORMATS, Format
from envhub.results.paste import describe_policy
from envhub.results.report.index import render_matrix_page
from envhub.results.report.page import report, write_page
from envhub.results.run import Run, open_run
from envhub.text import GAP, align, fold

_BETWEEN = "\x01"
"""Stands for `--` between two groups; no path has it."""

_HEAD = ("", "A", "B", "B - A", "only A", "only B", "p", "adjusted")


class _Points(click.FloatRange):
    """Percentage points; click's own errors would call `x` no valid float range."""

    name = "number"


class _Command(click.Command):
    """Keeps the `--` between two groups of runs, which click itself would swallow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_BETWEEN if each == "--" else each for each in args])


def _paths(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> tuple[Path, ...]:
    paths = (local_path(context, parameter, text) for text in texts)
    return tuple(path for path in paths if path is not None)


@click.command("compare", cls=_Command)
@click.argument("runs", nargs=-1, metavar="A B", callback=_paths)
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
@click.option(
    "--across",
    multiple=True,
    type=click.Choice([*CONDITIONS]),
    help="Pair episodes of runs that differ in this condition, which is named.",
)
@click.option(
    "--baseline",
    metavar="POLICY|RUN",
    show_default="the experiment's, or that of the first run",
    help="The policy that the others are compared with, in a matrix.",
)
@click.option(
    "--seeds",
    type=click.Choice(get_args(SeedRows)),
    show_default="pool",
    help="Whether each seed has a row in a matrix, or all of a policy are pooled.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    show_default="text",
    help="How to print a matrix; latex needs the package booktabs.",
)
@click.option("--unpaired", is_flag=True, help="Compare runs that did not play the same episodes.")
@json_option
@debug_option
def command(
    runs: Sequence[Path],
    *,
    fail_if: str | None,
    margin: float | None,
    html: Path | None,
    baseline: str | None,
    seeds: SeedRows | None,
    form: Format | None,
    unpaired: bool,
    across: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare two runs: A is the reference, B the candidate.

    Or any number of runs, or those of an experiment, in a matrix: policies by benchmarks, each with
    its difference to the baseline, adjusted by Holm's method over all of them.

    Or two groups of runs, such as policies trained with several seeds each: their rates are
    compared by Welch's test, with the variance between the runs of a group.

    Episodes with the same task, seed and initial state are pairs. Whether B is better or worse is
    decided by McNemar's exact test over all pairs, at 5 %. Runs of different numbers of episodes
    are compared in what they have in common.

    \b
    Examples:
        envhub compare runs/baseline runs/mine
        envhub compare runs/released runs/new --fail-if worse --margin 2
        envhub compare runs/still runs/late --across latency
        envhub compare runs/base runs/moved --across perturb
        envhub compare runs/old-1 runs/old-2 runs/old-3 -- runs/new-1 runs/new-2
        envhub compare experiment --format markdown
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if Path(_BETWEEN) in runs:
        if fail_if or margin is not None or html is not None or unpaired or across:
            raise UsageError("Groups of runs take no option but --json.")
        _compare_groups(runs, as_json=as_json)
        return
    if is_matrix(runs) or (runs and any(each is not None for each in (baseline, seeds, form))):
        if fail_if or margin is not None or unpaired or across:
            raise UsageError(
                "--fail-if, --margin, --unpaired and --across compare two runs: name two."
            )
        matrix, entries = read_matrix(runs, baseline, seeds or "pool")
        if html is not None:
            write_page(html, render_matrix_page(matrix, entries, html))
        show_matrix(matrix, form or "text", as_json=as_json)
        return
    _compare_two(
        runs,
        fail_if=fail_if,
        margin=margin,
        html=html,
        unpaired=unpaired,
        across=across,
        as_json=as_json,
    )


def _compare_two(
    runs: Sequence[Path],
    *,
    fail_if: str | None,
    margin: float | None,
    html: Path | None,
    unpaired: bool,
    across: tuple[str, ...],
    as_json: bool,
) -> None:
    if len(runs) != 2:
        raise UsageError(
            f"Name two runs or more, an experiment, or two groups with -- between them; found "
            f"{len(runs)}: envhub compare A1 A2 -- B1 B2."
        )
    first, second = (open_run(each) for each in runs)
    found = compare(first, second, paired=not unpaired, across=across)
    conditions = describe_across(first.run_info, second.run_info, across)
    allowed = None if margin is None else margin / 100
    apart = describe_told_apart(first.run_info, second.run_info)
    if html is not None:
        report(first, html, other=second, paired=not unpaired, across=across)
    if as_json:
        content = {"a": _describe(first), "b": _describe(second), **found.to_json()}
        content["instructions"] = apart
        content["across"] = conditions
        if allowed is not None:
            content |= {"margin": allowed, "not_worse_by_margin": found.not_worse_by(allowed)}
        click.echo(json.dumps(content, indent=2))
    else:
        for name, run in (("A", first), ("B", second)):
            echo_sentence(printable(f"{name}: {' | '.join(_describe(run).values())}"))
        click.echo("\n" + encodable(printable(render(found, columns()))) + "\n")
        for line in conclude(found, allowed):
            echo_sentence(printable(line))
        for line in [*conditions, *([] if apart is None else [apart])]:
            echo_sentence(printable(line))
    if fail_if is not None and _failed(found, fail_if, allowed):
        raise SystemExit(ExitCode.FOUND)


def _compare_groups(runs: Sequence[Path], *, as_json: bool) -> None:
    between = runs.index(Path(_BETWEEN))
    a, b = ([open_run(each) for each in part] for part in (runs[:between], runs[between + 1 :]))
    found = compare_groups(a, b)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for name, group, rates in (("A", a, found.rates_a), ("B", b, found.rates_b)):
        for run, rate in zip(group, rates, strict=True):
            echo_sentence(printable(f"{name}: {rate:6.1%} | {' | '.join(_describe(run).values())}"))
    click.echo()
    for line in conclude_groups(found):
        echo_sentence(printable(line))


def render(found: Comparison, width: int = 80) -> str:
    """Render the tasks, and the mean over them, as a table.

    Args:
        found: The comparison.
        width: The columns that the table may take; names that are too long have a line of their
            own.
    """
    overall = (
        "overall" if len(found.tasks) == 1 else "mean over tasks",
        f"{found.rate_a:.1%}",
        f"{found.rate_b:.1%}",
        points(found.difference),
        str(found.only_a) if found.paired else "",
        str(found.only_b) if found.paired else "",
        p_value(found.p),
        "",
    )
    rows = [_HEAD, *map(_row, found.tasks), overall]
    numbers = align([row[1:] for row in rows], right=range(len(_HEAD)))
    wide = max(map(len, numbers))
    room = width - wide - GAP
    names = [len(row[0]) for row in rows if len(row[0]) <= room]
    column = max(names) + GAP if room >= len("overall") else 0
    lines: list[str] = []
    for row, line in zip(rows, numbers, strict=True):
        if row is overall:
            lines.append("─" * (column + wide))
        fits = len(row[0]) + GAP <= column
        if not fits and row[0]:
            lines += fold(row[0], width, "  ")
        lines.append(f"{row[0] if fits else '':<{column}}{line}")
    return "\n".join(lines)


def _failed(found: Comparison, fail_if: str, margin: float | None) -> bool:
    """Whether B is so; lost episodes count against what is claimed."""
    if fail_if == "worse":
        return found.is_worse() if margin is None else not found.not_worse_by(margin)
    return found.is_different() if fail_if == "different" else not found.is_better()


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
