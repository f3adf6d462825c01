"""What is seen of a run while it goes on: live on a terminal, plain lines elsewhere."""

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from envhub.errors import PluginError, printable
from envhub.evaluation.engine import Engine
from envhub.evaluation.plan import Plan
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.statistics import wilson

if TYPE_CHECKING:
    from rich.console import RenderableType

_LINE_EVERY = 10.0
"""Seconds between plain lines."""
_LIVE_EVERY = 0.2
_SHOWN_SLOTS = 8


class Watcher:
    """Counts, and takes the first Ctrl-C as the wish to stop in good order."""

    def __init__(self, *, quiet: bool) -> None:
        self.run: Run | None = None
        self.interrupted = False
        self._quiet = quiet
        self.engine: Engine | None = None
        self._total = self._before = self._done = self._successes = self._judged = 0
        self._errors = 0
        self._began = self._shown = 0.0
        self._told = self._showing = self._stop = False
        self._again = "Ctrl-C again"

    def started(self, run: Run, plan: Plan, engine: Engine, done: int) -> None:
        """The engine is about to run."""
        self.run, self.engine = run, engine
        self._total, self._before = len(plan.episodes), done
        self._began = self._shown = time.monotonic()
        signal.signal(signal.SIGINT, self._interrupt)
        self.begin()

    def recorded(self, record: EpisodeRecord) -> None:
        """Count an episode."""
        self._done += 1
        self._errors += record.status != "ok"
        if record.counts and (record.success is not None or record.failed_by_policy):
            self._judged += 1
            self._successes += record.success is True

    def refresh(self) -> None:
        """Show, if it is time to."""
        if self.interrupted and not self._told:
            self._told = True
            with self._undisturbed():
                self.message(f"Finishing the episodes under way; {self._again} stops at once.")
        now = time.monotonic()
        if not self._quiet and now - self._shown >= self.every:
            self._shown = now
            with self._undisturbed():
                self.show()

    def warning(self, problem: PluginError) -> None:
        """An observer failed."""
        with self._undisturbed():
            self.message(f"envhub: {str(problem).rstrip('.')}; it is told no more.")

    def message(self, text: str) -> None:
        """A line on standard error."""
        click.echo(printable(text), err=True)

    def progress(self, text: str) -> None:
        """The same, unless nobody wants to know what takes its time."""
        if not self._quiet:
            self.message(text)

    def finish(self) -> None:
        """Nothing more will come."""
        signal.signal(signal.SIGINT, signal.default_int_handler)

    every = _LINE_EVERY

    def begin(self) -> None:
        """Show that it begins."""

    def show(self) -> None:
        """A plain line."""
        self.message(self.line())

    def line(self) -> str:
        """How far it is."""
        parts = [f"{self._before + self._done}/{self._total} episodes", self.rate(), self.speed()]
        return ", ".join(part for part in parts if part)

    def rate(self) -> str:
        """The rate so far, with its interval."""
        if not self._judged:
            return ""
        low, high = wilson(self._successes, self._judged)
        found = f"{self._successes / self._judged:.1%} [{low:.0%}, {high:.0%}] succeeded"
        return f"{found}, {self._errors} errored" if self._errors else found

    def speed(self) -> str:
        """Steps a second, and the time left."""
        seconds = time.monotonic() - self._began
        if self.engine is None or not self._done or seconds <= 0.0:
            return ""
        left = (self._total - self._before - self._done) * seconds / self._done
        return f"{self.engine.progress.steps / seconds:,.0f} steps/s, {_clock(left)} left"

    def slots(self) -> list[str]:
        """What each slot does."""
        return [] if self.engine is None else list(self.engine.progress.slots.values())

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if not self.interrupted and self.engine is not None:
            if number != signal.SIGINT:
                self._again = f"a second {signal.Signals(number).name}"
            self.interrupted = self.engine.stopping = True  # `refresh` says so
        elif self._showing and not self._stop:
            self._stop = True
        else:
            raise KeyboardInterrupt

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Write to the end: a Ctrl-C amidst would write, too, or leave half a picture behind."""
        self._showing = True
        try:
            yield
        except OSError as exc:
            if exc.errno != errno.EIO:  # the terminal was closed, which is no reason to fail
                raise
        finally:
            self._showing = False
        if self._stop:
            raise KeyboardInterrupt


class LiveWatcher(Watcher):
    """Draws with rich, on a terminal."""

    every = _LIVE_EVERY
    _live: Any = None

    def begin(self) -> None:
        """Start drawing."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=sys.stderr)
        self._live = Live(self._picture(), console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self) -> None:
        """Draw."""
        self._live.update(self._picture(), refresh=True)

    def message(self, text: str) -> None:
        """A line above the drawing."""
        if self._live is None:
            super().message(text)
        else:
            self._live.console.print(printable(text), markup=False, highlight=False)

    def finish(self) -> None:
        """Stop drawing."""
        super().finish()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self) -> "RenderableType":
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = ProgressBar(total=max(self._total, 1), completed=self._before + self._done, width=60)
        slots = self.slots()
        rows: list[RenderableType] = [bar, Text(self.line())]
        rows += [Text(f"  {index}: {what}") for index, what in enumerate(slots[:_SHOWN_SLOTS])]
        if slots[_SHOWN_SLOTS:]:
            rows.append(Text(f"  and {len(slots) - _SHOWN_SLOTS} more workers"))
        picture = Table.grid()  # a bar of its own does not end its line
        for row in rows:
            picture.add_row(row)
        return picture


@contextmanager
def signals_like_ctrl_c() -> Iterator[None]:
    """End like Ctrl-C on SIGTERM and SIGHUP, which batch systems and closed terminals send.

    A signal that is ignored, as nohup has it, stays so.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    handled = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}
    for number in handled:
        signal.signal(number, _like_ctrl_c)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _like_ctrl_c(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        _leave_closed_terminal()
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # a shell has a command in the background ignore Ctrl-C
        raise KeyboardInterrupt
    handler(number, frame)


def _leave_closed_terminal() -> None:
    """Write to nowhere what would go to a terminal that was closed: every write there fails."""
    for descriptor in (1, 2):
        with suppress(OSError):
            device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            if device and not os.isatty(descriptor):
                nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def make_watcher(*, quiet: bool) -> Watcher:
    """A watcher for where standard error goes."""
    live = not quiet and sys.stderr.isatty()
    return LiveWatcher(quiet=False) if live else Watcher(quiet=quiet)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
