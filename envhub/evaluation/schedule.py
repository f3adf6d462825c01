"""Which episode a free worker takes next. Pure.

A worker stays with the task that it has open. Otherwise it opens one that nobody has; when there is
none left, it helps with one that others have. Making an env can cost more than many episodes, so
helping is limited: once for each worker, beyond that only where much work is left.
"""

from collections import deque
from collections.abc import Iterable

from envhub.records import Episode

_MUCH = 10
"""Episodes that must wait for a task before more workers than planned for help with it."""


class Schedule:
    """The episodes that wait, by task."""

    def __init__(self, episodes: Iterable[Episode], workers: int) -> None:
        self._waiting: dict[str, deque[Episode]] = {}
        for episode in episodes:
            self._waiting.setdefault(episode.task, deque()).append(episode)
        self._assigned: dict[str, int] = dict.fromkeys(self._waiting, 0)
        self._helps = max(workers, 1)
        self.left = sum(len(waiting) for waiting in self._waiting.values())

    def take(self, task: str | None) -> Episode | None:
        """The next episode for a worker.

        Args:
            task: The one that it has open, or was assigned before.

        Returns:
            An episode, perhaps of another task, to which the worker is assigned then; None if there
            is nothing for it to do now.
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
        """A worker has given up its task."""
        if task is not None:
            self._assigned[task] -= 1

    def put_back(self, episode: Episode) -> None:
        """An episode is to be run again, before others of its task."""
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
        """The task with the most waiting episodes for each worker that has it."""
        task = max(self._waiting, key=self._load, default=None)
        if task is None or not self._waiting[task]:
            return None
        if self._helps > 0:
            self._helps -= 1
            return task
        return task if len(self._waiting[task]) >= _MUCH else None

    def _load(self, task: str) -> float:
        return len(self._waiting[task]) / (self._assigned[task] + 1)
