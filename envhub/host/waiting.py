"""The ways to ask workers for steps and to wait for their answers.

| way                    | used for                   | cost besides the env                 |
|------------------------|----------------------------|--------------------------------------|
| `RemoteEnv.step`       | chunks, the first step     | one message each way                 |
| `RemoteEnv.step_again` | evaluations, step by step  | one empty frame each way             |
| `LockstepSteps`        | `make_env`                 | the same, without notes per env      |
| `RemoteEnv.play`       | policies in the worker     | one message each way per 1000 steps  |
| `Worker.wait`          | one worker, e.g. loading   | a poll of three descriptors          |
| `Worker.wait_briefly`  | the next env of a batch    | one read, which ends after 10 ms     |
| `WorkerPoller.wait`    | the engine; slow batches   | an epoll, whatever the number        |
| `close_workers`        | workers that are to end    | waits in turn, drains their output   |

Each avoids a cost of the one above it: `tests/perf/transport.py` and `lockstep.py` measure it. None
of them spins: with more workers than cores, spinning would take cores from envs that compute.
"""

import math
import os
import select
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from envhub.host.inline import InlineWorker
from envhub.host.worker import Worker
from envhub.wire.frames import AT_ONCE, EMPTY, READ
from envhub.wire.values import Array

_CHANNEL, _END, _LOG = range(3)


class WorkerPoller:
    """Waits for answers, deaths, output and time limits of many workers at once."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[Worker, int]] = {}
        self._workers: set[Worker] = set()
        self._full: set[Worker] = set()
        self._events: set[int] = set()

    def add(self, worker: Worker) -> None:
        """Watch a worker."""
        self._workers.add(worker)
        for fd, event in (
            (worker.channel.fileno(), _CHANNEL),
            (worker.child.pidfd, _END),
            (worker.log.read_end, _LOG),
        ):
            self._watched[fd] = (worker, event)
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, worker: Worker) -> None:
        """Stop watching a worker; harmless when repeated."""
        self._workers.discard(worker)
        self._full.discard(worker)
        for fd in [fd for fd, (owner, _) in self._watched.items() if owner is worker]:
            self._forget(fd)

    def watch(self, event: int) -> None:
        """Also wake up when a descriptor of `os.eventfd` has something to read."""
        self._events.add(event)
        self._epoll.register(event, select.EPOLLIN)

    def unwatch(self, event: int) -> None:
        """Stop waking up for it."""
        self._events.remove(event)
        self._epoll.unregister(event)

    def wait(self, timeout: float = math.inf) -> None:
        """Wait until something happens to a worker, for `timeout` seconds at most."""
        self._watch_for_room()
        nearest = min([worker.deadline for worker in self._workers], default=math.inf)
        seconds = min(nearest - time.monotonic(), timeout)
        for fd, _ in self._epoll.poll(None if seconds == math.inf else max(0.0, seconds)):
            if fd in self._watched:  # unless an earlier event ended its worker
                self._handle(*self._watched[fd])
            elif fd in self._events:
                os.eventfd_read(fd)
        if nearest <= time.monotonic():
            self._end_overdue()

    def dispose(self) -> None:
        """Close the epoll; no worker is watched any more."""
        self._epoll.close()

    def _handle(self, worker: Worker, event: int) -> None:
        if event == _CHANNEL:
            if worker in self._full:
                worker.channel.flush()
            worker.read()
        elif event == _END:
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
        """Also wake up when a socket that was full takes data again."""
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


class LockstepSteps:
    """Quick steps of all workers of a vector environment, as long as nothing else is asked of them.

    To save time, the requests are not noted in each `Worker`. `stop` does that; afterwards each
    worker is in the state it would have if it had been asked alone.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        for worker in workers:
            worker.check_silent()
        sockets = [worker.channel.socket for worker in workers]
        self._sends = [socket.send for socket in sockets]
        self._receives = [socket.recv_into for socket in sockets]
        self._room = bytearray(READ)
        self._before = np.array([worker.next_id() - 1 for worker in workers], np.int64)
        self._count = 0
        self._started = 0.0
        self._asked = self._answered = len(workers)

    def numbers(self) -> Array:
        """Return the number of each worker's last request."""
        return self._before + self._count

    def step(self, on_answer: Callable[[int], None] | None) -> bool:
        """Ask each worker for a step, and wait for the answers.

        Args:
            on_answer: Called for each row whose observation is complete, while others compute.

        Returns:
            Whether all answered within 10 ms each, by an empty frame. If not, call `stop`.
        """
        self._started = time.monotonic()
        self._count += 1
        self._asked = self._answered = 0
        room, size = self._room, len(EMPTY)
        try:
            for send in self._sends:
                send(EMPTY, AT_ONCE)  # 4 bytes: sent whole or not at all
                self._asked += 1
            for receive in self._receives:
                got = receive(room)
                if got != size or not room.startswith(EMPTY):
                    self._workers[self._answered].channel.put_back(room[:got])
                    return False
                if on_answer is not None:
                    on_answer(self._answered)
                self._answered += 1
        except OSError:  # a full socket, no answer in time, or a dead worker
            return False
        return True

    def stop(self, limit: float) -> None:
        """Note in each worker what it was asked, and ask those that the last `step` did not reach.

        Args:
            limit: Seconds that a step may take.
        """
        for row, worker in enumerate(self._workers):
            worker.quick_step(
                int(self._before[row]) + self._count, limit, self._started, sent=row < self._asked
            )
            if row < self._answered:
                worker.quick_stepped()


def close_workers(workers: Iterable[Worker | InlineWorker], *, limit: float) -> None:
    """Let workers close their envs and exit; kill those that take longer than `limit` seconds."""
    closing = [worker for worker in workers if not worker.ended]
    for worker in closing:
        if isinstance(worker, Worker):
            worker.channel.close()
            if worker.busy:  # it would notice only after its request, which may never end
                worker.end()
    deadline = time.monotonic() + limit
    alive = [worker for worker in closing if isinstance(worker, Worker) and not worker.ended]
    while alive and time.monotonic() < deadline:
        for worker in alive:  # a worker that prints must not block on a full pipe
            worker.log.drain()
        alive[0].child.wait(0.005)
        alive = [worker for worker in alive if worker.child.poll() is None]
    for worker in closing:
        worker.end()
