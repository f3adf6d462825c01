"""Episodes that an engine is given while it runs, by another thread."""

import os
import threading
from collections.abc import Iterable

from envhub.records import Episode


class Supply:
    """The open end of a job: the engine goes on until it is closed."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._episodes: list[Episode] = []
        self._closed = False

    def add(self, episodes: Iterable[Episode]) -> None:
        """Give the engine further episodes."""
        with self._lock:
            self._episodes += episodes
            os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Give no more."""
        with self._lock:
            self._closed = True
            os.eventfd_write(self._event, 1)

    def take(self) -> list[Episode] | None:
        """Return what was added since; None: it is closed, and nothing is left."""
        with self._lock:
            taken, self._episodes = self._episodes, []
            return None if self._closed and not taken else taken

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is something to take."""
        return self._event
