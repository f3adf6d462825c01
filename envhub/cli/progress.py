"""The progress of a run: live on a terminal, plain lines elsewhere."""

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import mean
from types import FrameType
from typing import TYPE_CHECKING, Any

from envhub.cli.output import echo_error
from envhub.errors import PluginError, printable
from envhub.evaluation.plan import Plan
from envhub.evaluation.request import Playing
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.text import pluralize

if TYPE_CHECKING:
    from rich.console import RenderableType

_LINE_EVERY = 10.0
"""Seconds between plain lines."""
_LIVE_EVERY = 0.2
_SHOWN_SLOTS = 8


class Watcher:
    """Counts episodes, and lets those under way finish at the first Ctrl-C."""

    def __init__(self, *, quiet: bool) -> None:
        self.run: Run | None = None
        self.on_start: Callable[[Path], None] = lambda _: None
        """Called with the run's directory when its engine is about to run."""
        self.interrupted = False
        self._quiet = quiet
        self.engine: Playing | None = None
        self._total = self._before = self._done = self._errors = 0
        self._tasks: dict[str, tuple[int, int]] = {}
        self._planned_tasks = 0
        self._began = self._shown = 0.0
        self._announced = self._showing = self._stop = False
        self._again = "press Ctrl-C again"

    def started(
        self, run: Run, plan: Plan, engine: Playing, before: Sequence[EpisodeRecord]
    ) -> None:
        """Start to show progress: the engine is about to run."""
        self.run, self.engine = run, engine
        numbers = run.run_info.numbers
        self._total, self._before = len(numbers), len(before)
        self._planned_tasks = len({plan.episodes[number].task for number in numbers})
        for record in before:
            self._judge(record)
        self._began = self._shown = time.monotonic()
        signal.signal(signal.SIGINT, self._interrupt)
        self.on_start(run.directory)
        self.begin()

    def recorded(self, record: EpisodeRecord) -> None:
        """Count an episode."""
        self._done += 1
        self._errors += record.status != "ok"
        self._judge(record)

    def _judge(self, record: EpisodeRecord) -> None:
        if record.counts and (record.success is not None or record.failed_by_policy):
            successes, count = self._tasks.get(record.task, (0, 0))
            self._tasks[record.task] = (successes + (record.success is True), count + 1)

    def refresh(self) -> None:
        """Show the progress, if the last time was long enough ago."""
        if self.interrupted and not self._announced:
            self._announced = True
            with self._undisturbed():
                self.message(f"Finishing the episodes under way; {self._again} to stop at once.")
        now = time.monotonic()
        if not self._quiet and now - self._shown >= self.every:
            self._shown = now
            with self._undisturbed():
                self.show()

    def warning(self, problem: PluginError) -> None:
        """Report that an observer failed."""
        with self._undisturbed():
            self.message(f"envhub: {str(problem).rstrip('.')}; disabled for the rest of this run.")

    def message(self, text: str) -> None:
        """Print a line on standard error."""
        echo_error(printable(text))

    def progress(self, text: str) -> None:
        """Print a line about something slow, unless --quiet is given."""
        if not self._quiet:
            self.message(text)

    def finish(self) -> None:
        """Restore Python's own handling of Ctrl-C."""
        signal.signal(signal.SIGINT, signal.default_int_handler)

    every = _LINE_EVERY

    def begin(self) -> None:
        """Prepare the display."""

    def show(self) -> None:
        """Print a plain line."""
        self.message(self.line())

    def line(self) -> str:
        """Describe how far the run is."""
        parts = [f"{self._before + self._done}/{self._total} episodes", self.rate(), self.speed()]
        return ", ".join(part for part in parts if part)

    def rate(self) -> str:
        """Describe the mean rate of the tasks so far, and what is still to come.

        Without an interval: episodes that end early are recorded first, so that until the end the
        rate is no sample of the run.
        """
        if not self._tasks:
            return ""
        rate = mean(successes / count for successes, count in self._tasks.values())
        if self._planned_tasks > 1:
            tasks = f"mean over {len(self._tasks)} of {self._planned_tasks} tasks; "
        else:
            tasks = ""
        left = self._total - self._before - self._done
        text = f"so far {rate:.1%} succeeded ({tasks}{pluralize(left, 'episode')} to come)"
        return f"{text}, {self._errors} errored" if self._errors else text

    def speed(self) -> str:
        """Describe the steps per second and the time left."""
        seconds = time.monotonic() - self._began
        if self.engine is None or not self._done or seconds <= 0.0:
            return ""
        left = (self._total - self._before - self._done) * seconds / self._done
        return f"{self.engine.progress.steps / seconds:,.0f} steps/s, {clock(left)} left"

    def slots(self) -> list[str]:
        """Return what each slot is doing."""
        return [] if self.engine is None else list(self.engine.progress.slots.values())

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if not self.interrupted and self.engine is not None:
            if number != signal.SIGINT:
                self._again = f"send a second {signal.Signals(number).name}"
            self.interrupted = self.engine.stopping = True  # `refresh` prints it
        elif self._showing and not self._stop:
            self._stop = True
        else:
            raise KeyboardInterrupt

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Defer Ctrl-C while writing: otherwise it would write too, or leave half a picture."""
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
    """Draws the progress with rich, on a terminal."""

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
        """Draw the progress."""
        self._live.update(self._picture(), refresh=True)

    def message(self, text: str) -> None:
        """Print a line above the drawing."""
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
        shown = enumerate(slots[:_SHOWN_SLOTS])
        rows += [Text(f"  {index}: {activity}") for index, activity in shown]
        if slots[_SHOWN_SLOTS:]:
            rows.append(Text(f"  and {len(slots) - _SHOWN_SLOTS} more workers"))
        picture = Table.grid()  # a bar alone does not end its line
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
    """Make a watcher that suits standard error: a terminal or not."""
    live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return LiveWatcher(quiet=False) if live else Watcher(quiet=quiet)


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
