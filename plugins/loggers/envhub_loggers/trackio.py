"""`--log trackio`: a run in Trackio's own directory, or where `TRACKIO_SPACE_ID` ... say."""

import io
import os
import threading
from contextlib import redirect_stdout
from contextvars import Context
from pathlib import Path

import trackio

from envhub import hookimpl
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.summary import Summary
from envhub_loggers.content import PROJECT, group_of, id_of, identity, name_of
from envhub_loggers.log import Log

_one_at_a_time = threading.Lock()


class _Board:
    def __init__(self, run: Run) -> None:
        name = f"{name_of(run)}-{id_of(run)[:6]}"
        # Its greeting would be part of `--json`, and in a context it ends the run before.
        with _one_at_a_time, redirect_stdout(io.StringIO()):
            self._run = Context().run(
                trackio.init,
                project=os.environ.get("TRACKIO_PROJECT") or PROJECT,
                name=name,
                group=group_of(run),
                config=identity(run.run_info),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, step: int, values: dict[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def conclude(self, step: int, values: dict[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def show(self, step: int, name: str, video: Path) -> None:
        shown = trackio.Video(str(video), caption=name, format="mp4")
        self._run.log({f"failures/{name}": shown}, step=step)

    def close(self, *, complete: bool) -> None:
        with _one_at_a_time, redirect_stdout(io.StringIO()):
            self._run.finish()


_log = Log(_Board)


@hookimpl
def envhub_run_started(run: Run) -> None:
    """Note the run."""
    _log.started(run)


@hookimpl
def envhub_episode_finished(run: Run, record: EpisodeRecord) -> None:
    """Log the episode."""
    _log.recorded(run, record)


@hookimpl
def envhub_run_finished(run: Run, summary: Summary) -> None:
    """Log the results."""
    _log.finished(run, summary)
