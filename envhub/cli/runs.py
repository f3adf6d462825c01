"""`envhub runs`: list the runs in a directory."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import click

from envhub.cli.options import debug_option, json_option, local_path, one_line, runs_directory
from envhub.cli.output import columns
from envhub.errors import ExitCode, RunDirectoryError, UsageError
from envhub.results.paste import describe_policy
from envhub.results.run import open_run
from envhub.text import fold

_DIGEST = 12
"""Hex digits of a protocol, as in the line to paste."""
_INDENT = " " * 4


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, in a few words; only its directory and the error if it cannot be read."""

    run: str
    created: str | None = None
    ref: str | None = None
    policy: str | None = None
    episodes: int | None = None
    """Those that have a record."""
    planned: int | None = None
    rate: float | None = None
    ci_low: float | None = None
    """Of the 95 % interval of the rate, as a fraction."""
    ci_high: float | None = None
    seed: int | None = None
    protocol: str | None = None
    complete: bool = False
    error: str | None = None


@click.command("runs")
@click.argument("directory", metavar="[DIR]", required=False, callback=local_path)
@json_option
@debug_option
@click.pass_context
def command(context: click.Context, /, directory: Path | None, *, as_json: bool) -> None:
    """List the runs in DIR, the oldest first; without DIR, those in ./runs.

    \b
    Examples:
        envhub runs
        envhub runs results --json
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    place = directory or runs_directory()
    listed = _list(place, must_exist=directory is not None)
    if as_json:
        click.echo(json.dumps({"runs": [asdict(run) for run in listed]}, indent=2))
    elif listed:
        click.echo("\n".join(_text(run, columns()) for run in listed))
    else:
        click.echo(one_line(f"No runs in {place}. `envhub eval REF` makes one."))
    if any(run.error for run in listed):
        context.exit(ExitCode.FOUND)


def _list(directory: Path, *, must_exist: bool) -> list[RunRow]:
    """List the directory itself if it is a run, else the runs in it.

    Raises:
        UsageError: It cannot be read.
    """
    if (directory / "run.json").exists():
        return [_describe(directory)]
    try:
        folders = sorted(path for path in directory.iterdir() if (path / "run.json").exists())
    except FileNotFoundError:
        if not must_exist:
            return []
        raise UsageError(f"{directory} does not exist. Name a directory with runs in it.") from None
    except OSError as exc:
        raise UsageError(f"{directory} cannot be read: {exc.strerror}.") from exc
    return sorted(map(_describe, folders), key=lambda run: _time(run.created))


def _describe(directory: Path) -> RunRow:
    try:
        run = open_run(directory)
        summary = run.summary()
    except RunDirectoryError as exc:
        return RunRow(str(directory), error=str(exc))
    overall = summary.overall
    recorded, planned = sum(each.n + each.errors for each in summary.tasks), run.planned
    return RunRow(
        run=str(directory),
        created=run.run_info.created,
        ref=run.run_info.benchmark.ref,
        policy=describe_policy(run.run_info.policy),
        episodes=recorded,
        planned=planned,
        rate=overall.rate,
        ci_low=overall.ci_low,
        ci_high=overall.ci_high,
        seed=run.run_info.plan.seed,
        protocol=run.run_info.protocol,
        complete=recorded == planned,
    )


def _time(created: str | None) -> float:
    return datetime.fromisoformat(created).timestamp() if created else 0.0


def _text(run: RunRow, width: int) -> str:
    """The results and the directory, then what was evaluated; a long name has its own line."""
    if run.created is None:
        return _fold(width, run.run, str(run.error))
    when = datetime.fromisoformat(run.created).astimezone().strftime("%Y-%m-%d %H:%M")
    rate, interval = "-", ""
    if run.rate is not None and run.ci_low is not None and run.ci_high is not None:
        rate = f"{run.rate:.1%}"
        interval = f"[{100 * run.ci_low:.1f}, {100 * run.ci_high:.1f}]"
    first = f"{when}  {rate:>6}  {interval:<14}  {f'{run.episodes} of {run.planned}':>11}"
    about = f"seed {run.seed}, protocol {str(run.protocol).removeprefix('sha256:')[:_DIGEST]}"
    more = (f"{run.ref}, policy {run.policy}", about if run.complete else f"incomplete, {about}")
    if len(first) + 2 + len(run.run) <= width:
        return _fold(width, f"{first}  {run.run}", *more)
    return _fold(width, first, run.run, *more)


def _fold(width: int, first: str, *others: str) -> str:
    """A line, and below it others; names that are too long for a line are not broken."""
    lines = [
        _INDENT + line for text in others for line in fold(one_line(text), width - len(_INDENT))
    ]
    return "\n".join((one_line(first), *lines))
