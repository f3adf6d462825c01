"""`envhub eval --latency 0,25,50ms`, `--perturb camera=0,0.05`: several values, and their table."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from envhub.cli.output import echo_sentence
from envhub.errors import UsageError, printable
from envhub.evaluation.latency import LatencyRequest
from envhub.evaluation.perturbations import Strength
from envhub.evaluation.request import EvalRequest, Watcher
from envhub.evaluation.run import continue_run, name_run, start_run
from envhub.results.report.page import report_sweep
from envhub.results.report.sweep import explain
from envhub.results.run import Run
from envhub.results.sweep import LATENCY, Condition, compare_sweep, folder_of, render, to_json


@dataclass(frozen=True, slots=True)
class Sweep:
    """One request for each value of a condition."""

    condition: Condition
    requests: tuple[tuple[float, EvalRequest], ...]


def sweep_of(
    request: EvalRequest,
    latencies: Sequence[LatencyRequest],
    strengths: Mapping[str, Sequence[Strength]],
) -> Sweep:
    """Return what several values of one condition ask for.

    Args:
        request: What else is asked for.
        latencies: Those of `--latency`.
        strengths: Those of `--perturb`, by name.

    Raises:
        UsageError: Two conditions have several values.
    """
    several = [name for name, values in strengths.items() if len(values) > 1]
    if len(several) + (len(latencies) > 1) > 1:
        swept = [
            *(["--latency"] if len(latencies) > 1 else []),
            *(f"--perturb {n}" for n in several),
        ]
        raise UsageError(f"{' and '.join(swept)} have several values; one option may have them.")
    if len(latencies) > 1:
        return Sweep(
            LATENCY,
            tuple((one.seconds or 0.0, replace(request, latency=one)) for one in latencies),
        )
    (name,) = several
    return Sweep(
        Condition(name, perturbs=True),
        tuple(
            (value, replace(request, perturb={**request.perturb, name: value}))
            for value in strengths[name]
            if isinstance(value, float)  # texts are never one of several
        ),
    )


def play_sweep(
    request: EvalRequest, sweep: Sweep, watch: Callable[[str], Watcher], *, continuing: bool
) -> list[Run]:
    """Play the same episodes at each value, into runs below one directory.

    Args:
        request: What is asked for.
        sweep: The values.
        watch: Makes the receiver of a run's progress, of what is said first.
        continuing: Whether to continue the runs that were begun.

    Raises:
        UsageError: The directory has runs already, and they are not to be continued.
    """
    condition, total = sweep.condition, len(sweep.requests)
    if request.baselines or request.shard is not None:
        option = "--shard" if request.shard is not None else "--baselines"
        raise UsageError(f"{option} goes with one --{condition.across}; name one.")
    if continuing and request.out is None:
        raise UsageError("--continue needs the directory of the runs: --out DIR.")
    top = request.out or request.runs / name_run(request)
    runs: list[Run] = []
    for number, (value, asked) in enumerate(sweep.requests, 1):
        place = folder_of(top, condition, value)
        named = condition.name.capitalize()
        watcher = watch(f"{named} {condition.words(value)}, {number} of {total}: {place}")
        each = replace(asked, out=place)
        run = continue_run(each, place, watcher) if continuing else start_run(each, watcher)
        runs.append(run)
        if not run.complete:
            break
    return runs


def show_sweep(runs: Sequence[Run], condition: Condition, *, as_json: bool) -> None:
    """Print the table of the values, and write their page."""
    lines = compare_sweep(runs, condition)
    page = report_sweep(lines)
    if as_json:
        click.echo(json.dumps({**to_json(lines), "page": str(page)}, indent=2))
        return
    click.echo(printable(f"\n{render(lines)}\n"))
    echo_sentence(explain(condition))
    click.echo(printable(str(page)))
