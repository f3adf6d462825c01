"""Stepping many workers at once with what is in shared memory: the request that must cost least."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envhub.worker.channel import AT_ONCE, EMPTY, READ
from envhub.worker.host import Worker

Array = np.ndarray[Any, Any]


class Ticking:
    """Ticks of idle workers, one after the other, as long as nothing else happens.

    Nothing is written down for each worker: `stop` does that, after which each of them is as if it
    had been asked alone.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        for worker in workers:
            worker.must_be_silent()
        sockets = [worker.channel.socket for worker in workers]
        self._sends = [socket.send for socket in sockets]
        self._receives = [socket.recv_into for socket in sockets]
        self._room = bytearray(READ)
        self._before = np.array([worker.next_id() - 1 for worker in workers], np.int64)
        self._count = 0
        self._started = 0.0
        self._asked = self._answered = len(workers)

    def numbers(self) -> Array:
        """The number of each worker's last request."""
        return self._before + self._count

    def tick(self, on_answer: Callable[[int], None] | None) -> bool:
        """Ask for a step of each worker and wait.

        Args:
            on_answer: Told of each row whose observation is complete, while others compute.

        Returns:
            Whether all have answered soon, and with nothing but that they did. If not, `stop`.
        """
        self._started = time.monotonic()
        self._count += 1
        self._asked = self._answered = 0
        room, size = self._room, len(EMPTY)
        try:
            for send in self._sends:
                send(EMPTY, AT_ONCE)  # so few bytes are taken whole or not at all
                self._asked += 1
            for receive in self._receives:
                got = receive(room)
                if got != size or not room.startswith(EMPTY):
                    self._workers[self._answered].channel.put_back(room[:got])
                    return False
                if on_answer is not None:
                    on_answer(self._answered)
                self._answered += 1
        except OSError:  # no room, not soon, or the end of one of them
            return False
        return True

    def stop(self, limit: float) -> None:
        """Tell the workers what they were asked, and ask those that were not.

        Args:
            limit: Seconds that a step may take.
        """
        for row, worker in enumerate(self._workers):
            worker.tick(
                int(self._before[row]) + self._count, limit, self._started, sent=row < self._asked
            )
            if row < self._answered:
                worker.ticked()
