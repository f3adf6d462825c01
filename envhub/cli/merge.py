"""`envhub merge`: make one run of the shards of several machines."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from envhub.cli.options import debug_option, json_option, local_path, message
from envhub.cli.show import show_run
from envhub.errors import ExitCode
from envhub.results.merge import Contradicting, merge_runs
from envhub.results.run import Run
from envhub.run_info import to_rows
from envhub.text import pluralize

_EVERY = 2.0
"""Seconds from one look at the shards to the next."""
_SHOWN = 4


@click.command("merge")
@click.argument("out", metavar="OUT", callback=local_path)
@click.argument(
    "places",
    metavar="DIR...",
    nargs=-1,
    required=True,
    callback=lambda ctx, param, texts: [local_path(ctx, param, text) for text in texts],
)
@click.option(
    "--watch", is_flag=True, help="Merge again as the shards grow, until no episode is missing."
)
@json_option
@debug_option
@click.pass_context
def command(
    context: click.Context, /, out: Path, places: Sequence[Path], *, watch: bool, as_json: bool
) -> None:
    """Merge runs of one plan, such as shards, into the run OUT.

    The same episode may be in several of them, if it went the same way. Shards that still play can
    be merged, too, and merged again into the same OUT. What is missing then can be played there:
    `envhub eval --resume OUT`. The exit code is 1 if an episode is missing, or if two runs
    contradict each other.

    \b
    Examples:
        envhub merge result parts/*
        envhub merge result parts/* --watch
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    try:
        run = _watch(out, places) if watch else merge_runs(out, places)
    except Contradicting as exc:
        message(f"envhub: {exc}")
        context.exit(ExitCode.FOUND)
    show_run(run, as_json=as_json)
    if not run.complete:
        message(_describe_missing(run))
        context.exit(ExitCode.FOUND)


def _watch(out: Path, places: Sequence[Path]) -> Run:
    """Merge until the run is complete; Ctrl-C leaves what was merged."""
    before = -1
    while True:
        there = [place for place in places if (place / "run.json").exists()]
        if there:
            run = merge_runs(out, there)
            count = len(run.records())
            if count != before:
                rate = run.summary().overall.rate
                told = "" if rate is None else f", {rate:.1%} succeeded so far"
                message(f"{count} of {run.planned} episodes{told}")
            if count == run.planned:
                return run
            before = count
        time.sleep(_EVERY)


def _describe_missing(run: Run) -> str:
    recorded = {record.number for record in run.records()}
    missing = [number for number in range(run.planned) if number not in recorded]
    order, per_task = run.run_info.plan.order, run.run_info.plan.episodes
    rows = [
        _describe_row(order[number // per_task], first % per_task, last % per_task)
        for number, (first, last) in _by_task(missing, per_task)
    ]
    more = f" and {len(rows) - _SHOWN} more" if rows[_SHOWN:] else ""
    verb = "is" if len(missing) == 1 else "are"
    how = f"envhub eval --resume {run.directory}"
    if run.run_info.seal is None:
        how = f"envhub eval REF --policy P --out {run.directory} --continue"
    return (
        f"{pluralize(len(missing), 'episode')} {verb} missing: {', '.join(rows[:_SHOWN])}{more}. "
        f"Merge the other shards, too, or play what is missing here: {how}"
    )


def _by_task(numbers: Sequence[int], per_task: int) -> list[tuple[int, tuple[int, int]]]:
    tasks: dict[int, list[int]] = {}
    for number in numbers:
        tasks.setdefault(number // per_task, []).append(number)
    return [(task * per_task, row) for task, own in tasks.items() for row in to_rows(own)]


def _describe_row(task: str, first: int, last: int) -> str:
    return f"{task} {first}" if first == last else f"{task} {first} to {last}"
