"""`envhub eval --latency 0,25,50ms`: the same episodes at several latencies, and their table."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import click

from envhub.cli.output import echo_sentence
from envhub.errors import UsageError, printable
from envhub.evaluation.latency import LatencyRequest
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.run import continue_run, name_run, start_run
from envhub.results.latencies import compare_latencies, folder_of, in_words, render, to_json
from envhub.results.report.latencies import HOW
from envhub.results.report.page import report_latencies
from envhub.results.run import Run


def play_latencies(
    request: EvalRequest,
    asked: Sequence[LatencyRequest],
    watch: Callable[[str], Watcher],
    *,
    continuing: bool,
) -> list[Run]:
    """Play the same episodes at each latency, into runs below one directory.

    Args:
        request: What is asked for.
        asked: The latencies.
        watch: Makes the receiver of a run's progress, of what is said first.
        continuing: Whether to continue the runs that were begun.

    Raises:
        UsageError: The directory has runs already, and they are not to be continued.
    """
    if request.baselines or request.shard is not None:
        option = "--shard" if request.shard is not None else "--baselines"
        raise UsageError(f"{option} goes with one --latency; name one.")
    if continuing and request.out is None:
        raise UsageError("--continue needs the directory of the runs: --out DIR.")
    top = request.out or request.runs / name_run(request)
    runs: list[Run] = []
    for number, one in enumerate(asked, 1):
        assert one.seconds is not None  # of several, none is a run's
        place = folder_of(top, one.seconds)
        watcher = watch(f"Latency {in_words(one.seconds)}, {number} of {len(asked)}: {place}")
        each = replace(request, latency=one, out=place)
        run = continue_run(each, place, watcher) if continuing else start_run(each, watcher)
        runs.append(run)
        if not run.complete:
            break
    return runs


def show_latencies(runs: Sequence[Run], *, as_json: bool) -> None:
    """Print the table of latencies, and write their page."""
    lines = compare_latencies(runs)
    page = report_latencies(lines)
    if as_json:
        click.echo(json.dumps({"latencies": to_json(lines), "page": str(page)}, indent=2))
        return
    click.echo(printable(f"\n{render(lines)}\n"))
    echo_sentence(HOW)
    click.echo(printable(str(page)))
