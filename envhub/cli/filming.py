"""Drawing the videos of a run, with progress: for `report` and `eval`."""

import shlex
import sys
import time
from collections.abc import Sequence

from envhub.cli.options import message
from envhub.cli.output import echo_error
from envhub.cli.progress import clock, make_watcher
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.videos import VideoProgress, draw_videos
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.text import pluralize

_LINE_EVERY = 10.0
"""Seconds between lines, where there is no terminal."""
_LIVE_EVERY = 0.5


def film(
    run: Run,
    records: Sequence[EpisodeRecord],
    options: RerunOptions,
    *,
    every: int | None = None,
    quiet: bool = False,
) -> None:
    """Draw the videos of these episodes, and say which could not be drawn.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C, and was told how to go on later.
    """
    if not records:
        return
    progress = _Progress(quiet=quiet)
    watcher = make_watcher(quiet=True)
    try:
        undrawn = draw_videos(run, records, options, watcher, every=every, on_frame=progress.show)
    except KeyboardInterrupt:
        progress.end()
        message(_stopped(run, progress.drawn))
        raise
    progress.end()
    if undrawn:
        first = undrawn[0]
        message(
            f"{len(undrawn)} of {len(records)} videos could not be drawn, the first, of "
            f"{first.record.task}:{first.record.episode}: {first.error}"
        )


def _stopped(run: Run, drawn: VideoProgress | None) -> str:
    failed = any(record.success is not True for record in run.records())
    words = ["envhub", "report", str(run.directory), "--videos", "failures" if failed else "some"]
    done = f"{drawn.done} of {drawn.videos} videos are" if drawn else "no video is"
    return (
        f"Stopped drawing: {done} finished, and the run itself is kept. Write the report "
        f"later with: {shlex.join(words)}"
    )


class _Progress:
    """Says how many videos are drawn, and how long the others will take."""

    def __init__(self, *, quiet: bool) -> None:
        self.drawn: VideoProgress | None = None
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def show(self, drawn: VideoProgress) -> None:
        self.drawn = drawn
        now = time.monotonic()
        if drawn.frame == 0 and not self._quiet:
            echo_error(f"Drawing {pluralize(drawn.videos, 'video')}. Ctrl-C stops it.")
        if drawn.frame <= 1 and not drawn.done:
            self._began = now  # starting the workers says nothing of the time per frame
        if not self._quiet and now - self._shown >= (_LIVE_EVERY if self._live else _LINE_EVERY):
            self._shown = now
            self._print(drawn, now - self._began)

    def end(self) -> None:
        """Print the last line, with what came of it."""
        if self._quiet or self.drawn is None:
            return
        text = f"{self.drawn.done} of {pluralize(self.drawn.videos, 'video')} drawn"
        echo_error(f"\r\x1b[K{text}" if self._live else text)

    def _print(self, drawn: VideoProgress, seconds: float) -> None:
        left = seconds / drawn.frame * max(0, drawn.frames - drawn.frame)
        text = f"{drawn.done} of {pluralize(drawn.videos, 'video')} drawn, {clock(left)} left"
        if self._live:
            echo_error(f"\r\x1b[K{text}", end="")
        else:
            echo_error(text)
