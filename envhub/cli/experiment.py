"""`envhub eval FILE.toml`: play an experiment, and print its matrix."""

import json
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import click

from envhub.cli.live import page_beside
from envhub.cli.matrix import read_matrix, show_matrix
from envhub.cli.options import runs_directory
from envhub.cli.output import echo_error
from envhub.cli.progress import Watcher as SingleWatcher
from envhub.cli.progress import clock
from envhub.errors import EnvHubError, ExitCode, RunDirectoryError, UsageError, printable
from envhub.evaluation.experiment import Played, new_directory, play_experiment
from envhub.evaluation.forecast import Forecast, forecast
from envhub.evaluation.request import Playing
from envhub.options import SourceOptions
from envhub.plugins import Plugins
from envhub.records import EpisodeRecord
from envhub.results.experiment import (
    Cell,
    Experiment,
    open_experiment,
    read_experiment_file,
)
from envhub.results.run import Run
from envhub.text import align, pluralize

_ALLOWED = {
    *("ref", "resume", "continuing", "out", "workers", "quiet", "as_json", "options", "dry_run"),
    *("trust_remote_code", "allow_unpinned", "private", "locked", "sandbox"),
    *("sandbox_allow_network", "env_vars", "watch", "loggers"),
}
_LINE_EVERY = 10.0


def evaluate_experiment(
    context: click.Context,
    ref: str | None,
    resume: Path | None,
    *,
    workers: int | None,
    options: SourceOptions,
    observers: Plugins,
) -> None:
    """Play an experiment, and print its matrix; or say what it would take.

    Raises:
        UsageError: The file describes no experiment, or an option belongs in it.
    """
    _refuse_options(context)
    params = context.params
    quiet, as_json = params["quiet"], params["as_json"]
    if params["dry_run"]:
        _foresee(context, ref, resume, workers, options, quiet=quiet, as_json=as_json)
        return
    experiment = _open(ref, resume, params["out"], continuing=params["continuing"])
    onlooker = Watcher(experiment, quiet=quiet)
    if params["watch"]:
        pages = context.with_resource(ExitStack())
        page = page_beside(experiment.directory, lambda text: onlooker.message(None, text))
        onlooker.on_start = lambda: pages.enter_context(page)
    before = signal.signal(signal.SIGINT, onlooker.interrupt)
    try:
        played = play_experiment(
            experiment, options, onlooker, workers=workers, observers=observers
        )
    except KeyboardInterrupt:
        _show_resume(experiment)
        context.exit(ExitCode.INTERRUPTED)
    except BaseException:
        with suppress(OSError):
            experiment.directory.rmdir()  # unless something was played
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        onlooker.finish()
    matrix, _ = read_matrix([experiment.directory])
    show_matrix(matrix, "text", as_json=as_json)
    if not as_json:
        click.echo(printable(f"\n{experiment.directory}"))
    if onlooker.stopping and not _is_complete(experiment):
        _show_resume(experiment)
        context.exit(ExitCode.INTERRUPTED)
    context.exit(_code(played))


def _foresee(
    context: click.Context,
    ref: str | None,
    resume: Path | None,
    workers: int | None,
    options: SourceOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print what an experiment would take; ends with 3 if consent is missing."""
    around = runs_directory() if resume is None else resume
    if resume is None:
        experiment = read_experiment_file(Path(str(ref)), around)
    else:
        experiment = open_experiment(resume)
    watcher = SingleWatcher(quiet=True)
    if not quiet:
        echo_error("Looking at benchmarks; those that were never played get two probes each.")
    try:
        found = forecast(experiment, options, workers, watcher, around)
    finally:
        watcher.finish()
    if as_json:
        totals = {"episodes": found.episodes, "seconds": found.seconds, "disk": found.disk}
        click.echo(json.dumps(asdict(found) | totals, indent=2))
    else:
        click.echo(printable("\n".join(_forecast_lines(found))))
    if found.refused:
        context.exit(ExitCode.REFUSED)
    context.exit(ExitCode.FOUND if found.problems else ExitCode.DONE)


def _forecast_lines(found: Forecast) -> list[str]:
    rows = [("", "cells", "episodes", "per episode", "")]
    for column in found.columns:
        seconds = "?" if column.seconds is None else f"{column.seconds:.2f} s"
        count = "?" if column.episodes is None else f"{column.episodes:,}"
        said = column.source or "nothing is known before its code may run"
        rows.append((column.benchmark, str(column.cells), count, seconds, said))
    time = (
        "?" if found.seconds is None else f"about {clock(found.seconds)}, and the start of workers"
    )
    disk = "?" if found.disk is None else f"about {found.disk / 2**20:,.1f} MB"
    lines = [*align(rows, right=(1, 2, 3)), ""]
    lines += [f"Workers: {found.workers}", f"Time: {time}", f"Disk: {disk}"]
    for title, listed in (
        ("Runtimes to build", found.builds),
        ("Downloads", found.downloads),
        ("Consent that is missing", found.refused),
        ("Problems", found.problems),
    ):
        lines.append(f"{title}: {'none' if not listed else ''}".rstrip())
        lines += [f"  {text}" for text in listed]
    return lines


def _open(
    ref: str | None, resume: Path | None, out: Path | None, *, continuing: bool
) -> Experiment:
    if resume is not None:
        if ref is not None:
            raise UsageError(f"--resume takes the experiment from {resume}: leave {ref} out.")
        return open_experiment(resume, obey=True)
    file = Path(str(ref))
    if continuing and out is None:
        raise UsageError("--continue needs the experiment's directory: --out DIR.")
    if out is None:
        runs = runs_directory()
        read_experiment_file(file, runs)  # says what is wrong before a directory is made
        return read_experiment_file(file, new_directory(file.stem, runs))
    if not continuing and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunDirectoryError(
            f"{out} exists and is not empty. Add --continue to go on with it, or choose another "
            "--out."
        )
    return read_experiment_file(file, out)


def _refuse_options(context: click.Context) -> None:
    """Refuse options that an experiment's file has for itself."""
    for name in context.params:
        origin = context.get_parameter_source(name)
        if name not in _ALLOWED and origin is not click.core.ParameterSource.DEFAULT:
            option = next(p.opts[0] for p in context.command.params if p.name == name)
            raise UsageError(
                f"{option} cannot be given with an experiment: set what cells do in its file."
            )


def _is_complete(experiment: Experiment) -> bool:
    runs = experiment.runs()
    return all(cell in runs and runs[cell].complete for cell in experiment.cells)


def _code(played: Played) -> ExitCode:
    """The error's own code if nothing could be played, else whether there was any."""
    if played.failures:
        if not played.runs:
            return next(iter(played.failures.values())).exit_code
        return ExitCode.FOUND
    errored = any(r.status != "ok" for run in played.runs.values() for r in run.records())
    return ExitCode.FOUND if errored else ExitCode.DONE


def _show_resume(experiment: Experiment) -> None:
    echo_error(printable(f"Interrupted. Resume with: envhub eval --resume {experiment.directory}"))


class Watcher:
    """Prints how far an experiment is, and lets episodes under way finish at the first Ctrl-C."""

    def __init__(self, experiment: Experiment, *, quiet: bool) -> None:
        self.stopping = False
        self.on_start: Callable[[], object] = lambda: None
        """Called when the first cell begins to play."""
        self._experiment = experiment
        self._quiet = quiet
        self._announced = self._stopped = False
        self._engines: dict[Cell, Playing] = {}
        self._planned: dict[Cell, int] = {}
        self._done: dict[Cell, int] = {}
        self._ended: set[Cell] = set()
        self._said: set[tuple[str, str, str]] = set()
        self._played = 0
        self._began = self._shown = time.monotonic()

    def began(self, cell: Cell, run: Run, engine: Playing, before: int) -> None:
        """Note that a cell plays."""
        if not self._done:  # cells are prepared one after another
            self.on_start()
        self._engines[cell] = engine
        self._planned[cell] = len(run.run_info.numbers)
        self._done[cell] = before

    def recorded(self, cell: Cell, record: EpisodeRecord) -> None:
        """Count an episode."""
        self._done[cell] += 1
        self._played += 1

    def ended(self, cell: Cell, outcome: Run | EnvHubError) -> None:
        """Say how a cell ended."""
        self._ended.add(cell)
        self._engines.pop(cell, None)
        if isinstance(outcome, EnvHubError):
            self.message(cell, str(outcome))
            return
        line = outcome.summary().overall
        rate = "no rate" if line.rate is None else f"{line.rate:.1%}"
        errors = f", {pluralize(line.errors, 'error')}" if line.errors else ""
        self.progress(None, f"{self._count()} {cell.name}: {rate}{errors}")

    def message(self, cell: Cell | None, text: str) -> None:
        """Print a line, with the cell that it is about."""
        echo_error(printable(text if cell is None else f"{cell.name}: {text}"))

    def progress(self, cell: Cell | None, text: str) -> None:
        """Print a line about something slow, unless --quiet is given.

        Cells of one policy and one benchmark say the same; it is printed once.
        """
        if cell is not None:
            said = (cell.policy, cell.benchmark, text)
            if said in self._said:
                return
            self._said.add(said)
        if not self._quiet:
            self.message(cell, text)

    def refresh(self) -> bool:
        """Print a line now and then; returns whether to stop."""
        if self._stopped and not self._announced:
            self._announced = True
            self.message(None, "Finishing the episodes under way; press Ctrl-C again to stop now.")
        self._stopped = self.stopping  # of which the engines are told after this
        now = time.monotonic()
        if not self._quiet and now - self._shown >= _LINE_EVERY:
            self._shown = now
            self.message(None, self._line())
        return self.stopping

    def finish(self) -> None:
        """Stop drawing."""

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle Ctrl-C."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True

    def _count(self) -> str:
        return f"[{len(self._ended)}/{len(self._experiment.cells)}]"

    def _line(self) -> str:
        done, planned = sum(self._done.values()), sum(self._planned.values())
        unknown = len(self._experiment.cells) - len(self._planned)
        if self._planned:  # as many in the others as in these, on average
            planned += round(unknown * planned / len(self._planned))
        seconds = time.monotonic() - self._began
        left = clock((planned - done) * seconds / self._played) if self._played else "?"
        about = "about " if unknown else ""
        playing = ", ".join(
            f"{cell.name} {self._done[cell]}/{self._planned[cell]}" for cell in list(self._engines)
        )
        cells = len(self._experiment.cells)
        return (
            f"{len(self._ended)}/{cells} cells, {done}/{about}{planned} episodes, {left} left"
            + (f"; {playing}" if playing else "")
        )
