"""Which episode a free worker takes next. Pure.

A worker stays with the task that it has open. Otherwise it opens a task that no worker has; if none
is left, it helps with a task that others have. Making an env can cost more than many episodes, so
helping is limited: once per worker, beyond that only if much work is left.
"""

from collections import deque
from collections.abc import Iterable

from envhub.records import Episode

_MUCH = 10
"""Waiting episodes from which on a task gets help beyond the limit of once per worker."""


class Schedule:
    """The episodes that wait, by task."""

    def __init__(self, episodes: Iterable[Episode], workers: int) -> None:
        self._waiting: dict[str, deque[Episode]] = {}
        self._assigned: dict[str, int] = {}
        self._helps = 0
        self.left = 0
        self.add(episodes, max(workers, 1))

    def add(self, episodes: Iterable[Episode], workers: int) -> None:
        """Add episodes, and let so many workers more help with a task that others have."""
        for episode in episodes:
            self._waiting.setdefault(episode.task, deque()).append(episode)
            self._assigned.setdefault(episode.task, 0)
            self.left += 1
        self._helps += workers

    def take(self, task: str | None) -> Episode | None:
        """Take the next episode for a worker.

        Args:
            task: The task that the worker has open, or was last assigned to.

        Returns:
            An episode, perhaps of another task, to which the worker is then assigned; None if
            there is no work for it now.
        """
        if task is not None and self._waiting.get(task):
            return self._pop(task)
        other = self._unassigned() or self._to_help()
        if other is None:
            return None
        self.release(task)
        self._assigned[other] += 1
        return self._pop(other)

    def release(self, task: str | None) -> None:
        """Note that a worker has left its task."""
        if task is not None:
            self._assigned[task] -= 1

    def put_back(self, episode: Episode) -> None:
        """Return an episode that is run again, before the others of its task."""
        self._waiting[episode.task].appendleft(episode)
        self.left += 1

    def _pop(self, task: str) -> Episode:
        self.left -= 1
        return self._waiting[task].popleft()

    def _unassigned(self) -> str | None:
        for task, waiting in self._waiting.items():
            if waiting and not self._assigned[task]:
                return task
        return None

    def _to_help(self) -> str | None:
        """Return the task with the most waiting episodes per worker, if it may get help."""
        task = max(self._waiting, key=self._load, default=None)
        if task is None or not self._waiting[task]:
            return None
        if self._helps > 0:
            self._helps -= 1
            return task
        return task if len(self._waiting[task]) >= _MUCH else None

    def _load(self, task: str) -> float:
        return len(self._waiting[task]) / (self._assigned[task] + 1)
