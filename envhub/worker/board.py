"""Waiting for many workers at once."""

import math
import select
import time
from collections.abc import Iterable

from envhub.worker.host import Worker
from envhub.worker.inline import InlineWorker

_CHANNEL, _END, _LOG = range(3)


class Switchboard:
    """Notices answers, deaths, output and limits of the workers that it watches."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[Worker, int]] = {}
        self._workers: set[Worker] = set()
        self._full: set[Worker] = set()

    def add(self, worker: Worker) -> None:
        """Watch a worker."""
        self._workers.add(worker)
        for fd, what in (
            (worker.channel.fileno(), _CHANNEL),
            (worker.child.pidfd, _END),
            (worker.log.read_end, _LOG),
        ):
            self._watched[fd] = (worker, what)
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, worker: Worker) -> None:
        """Watch it no more; harmless when repeated."""
        self._workers.discard(worker)
        self._full.discard(worker)
        for fd in [fd for fd, (owner, _) in self._watched.items() if owner is worker]:
            self._forget(fd)

    def wait(self, timeout: float = math.inf) -> None:
        """Wait until something happens to a worker, or for so many seconds."""
        self._watch_for_room()
        nearest = min([worker.deadline for worker in self._workers], default=math.inf)
        patience = min(nearest - time.monotonic(), timeout)
        for fd, _ in self._epoll.poll(None if patience == math.inf else max(0.0, patience)):
            if fd in self._watched:  # unless an event before this one ended it
                self._handle(*self._watched[fd])
        if nearest <= time.monotonic():
            self._end_overdue()

    def settled(self) -> list[Worker]:
        """The workers whose outcome waits to be taken."""
        return [worker for worker in self._workers if worker.outcome is not None]

    def dispose(self) -> None:
        """Free what waiting needs; no worker is watched any more."""
        self._epoll.close()

    def _handle(self, worker: Worker, what: int) -> None:
        if what == _CHANNEL:
            if worker in self._full:
                worker.channel.flush()
            worker.read()
        elif what == _END:
            worker.died()
        elif not worker.log.drain():
            self._forget(worker.log.read_end)
        if worker.ended:
            self.remove(worker)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for worker in [worker for worker in self._workers if worker.deadline <= now]:
            worker.overdue()
            if worker.ended:
                self.remove(worker)

    def _watch_for_room(self) -> None:
        """Where something could not be sent at once, also wake up when there is room."""
        full = {worker for worker in self._workers if worker.channel.unsent}
        for worker in full ^ self._full:
            room = select.EPOLLOUT if worker in full else 0
            self._epoll.modify(worker.channel.fileno(), select.EPOLLIN | room)
        self._full = full

    def _forget(self, fd: int) -> None:
        del self._watched[fd]
        try:
            self._epoll.unregister(fd)
        except OSError:  # closed already, which unregisters it
            return


def close_workers(workers: Iterable[Worker | InlineWorker], *, limit: float) -> None:
    """Let workers close their envs and end; those that take too long are ended."""
    closing = [worker for worker in workers if not worker.ended]
    for worker in closing:
        if isinstance(worker, Worker):
            worker.channel.close()
            if worker.busy:  # it would not notice before it is done, which may be never
                worker.end()
    deadline = time.monotonic() + limit
    alive = [worker for worker in closing if isinstance(worker, Worker) and not worker.ended]
    while alive and time.monotonic() < deadline:
        for worker in alive:  # one that prints must not wait for a slower one
            worker.log.drain()
        alive[0].child.wait(0.005)
        alive = [worker for worker in alive if worker.child.poll() is None]
    for each in closing:
        each.end()
