"""Logging runs, whatever the tool: which run is where, and what is said when."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.results.summary import Summary
from envhub.results.videos import known_videos, video_path
from envhub_loggers.content import Tally, failures, results


class Board(Protocol):
    """Where one run is logged."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Log the values of an episode; the step is the number of episodes so far."""
        ...

    def conclude(self, step: int, values: dict[str, float]) -> None:
        """Log the rates at the end."""
        ...

    def show(self, step: int, name: str, video: Path) -> None:
        """Log the video of an episode."""
        ...

    def close(self, *, complete: bool) -> None:
        """End the log of the run."""
        ...


@dataclass(slots=True)
class _Session:
    """A run that is under way."""

    tally: Tally = field(default_factory=Tally)
    board: Board | None = None


class Log:
    """Logs the runs of this process, which may be several at once, each in a thread.

    A run's board is opened with its first episode: what never played leaves nothing anywhere.
    """

    def __init__(self, open_board: Callable[[Run], Board]) -> None:
        self._open = open_board
        self._sessions: dict[Path, _Session] = {}
        self._opening = threading.Lock()  # a tool may set up its store when it is first used

    def started(self, run: Run) -> None:
        """Note that a run starts or is resumed."""
        session = self._sessions[run.directory] = _Session()
        for record in run.records():
            session.tally.count(record)

    def recorded(self, run: Run, record: EpisodeRecord) -> None:
        """Log an episode."""
        session = self._sessions[run.directory]
        session.tally.count(record)
        self._board(session, run).log(session.tally.episodes, session.tally.values(record))

    def finished(self, run: Run, summary: Summary) -> None:
        """Log the rates, and the videos of failures that are drawn; end the log."""
        session = self._sessions.pop(run.directory, None)
        if session is None or not session.tally.episodes:
            return
        board, step = self._board(session, run), session.tally.episodes
        try:
            board.conclude(step, results(run, summary))
            failed = list(failures(run))
            drawn = known_videos(run, failed)
            for record in failed:
                if record.number in drawn:
                    path = video_path(run, record.number)
                    board.show(step, f"{record.task}:{record.episode}", path)
        finally:
            board.close(complete=run.complete)

    def _board(self, session: _Session, run: Run) -> Board:
        if session.board is None:
            with self._opening:
                session.board = self._open(run)
        return session.board
