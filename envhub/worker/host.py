"""The host's side: starting workers, asking them, noticing what happens to them."""

import os
import selectors
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import envhub
from envhub.errors import (
    UnsupportedPlatform,
    WorkerDied,
    WorkerError,
    WorkerRaised,
    WorkerTimeout,
)
from envhub.process import Child, describe_exit, spawn
from envhub.runtime.variables import worker_variables
from envhub.worker.channel import BrokenChannel, HostChannel
from envhub.worker.log import Log
from envhub.worker.protocol import Failed, Reply, Request, check, decode_reply, encode

R = TypeVar("R")

# The package is found by its path, whatever the interpreter's own is. Its directory comes last, so
# that it adds this package and shadows nothing.
_BOOT = (
    "import sys; sys.path.append({root!r}); "
    "from envhub.worker.__main__ import main; main(sys.argv[1:])"
)


class Worker:
    """A worker process as the host sees it. It is asked one thing at a time."""

    def __init__(self, name: str, *, log: Path | None = None) -> None:
        """Start the process.

        Args:
            name: What errors call it, e.g. `env 3`.
            log: A file for the beginning of its output.
        """
        if sys.platform != "linux":
            raise UnsupportedPlatform(
                "EnvHub runs on Linux only: its workers need memfd and pidfd."
            )
        self.name = name
        self.outcome: Reply | WorkerError | None = None
        self.busy = False
        self.ended = False
        self.deadline = float("inf")
        self._limit = 0.0
        self._request: Request | None = None
        self._doing = "start"
        self._scratch = Path(tempfile.mkdtemp(prefix="envhub-"))
        self.channel = HostChannel()
        self.log = Log(log)
        end = self.channel.worker_end.fileno()
        root = str(Path(envhub.__file__).parent.parent)
        self.child: Child = spawn(
            [sys.executable, "-P", "-c", _BOOT.format(root=root), str(end), str(os.getpid())],
            env=worker_variables(self._scratch),
            cwd=self._scratch,
            output=self.log.write_end,
            pass_fds=(end,),
        )
        self.channel.worker_end.close()
        self.log.hand_over()

    def next_id(self) -> int:
        """The number of the next request."""
        return self._request.id + 1 if self._request else 1

    def ask(self, request: Request, *, limit: float, doing: str, fds: tuple[int, ...] = ()) -> None:
        """Send a request without waiting.

        Args:
            request: Its id must be `next_id()`.
            limit: Seconds until it must be answered.
            doing: What errors call it, e.g. `step of task 'reach'`.
            fds: Descriptors to send along.
        """
        self._request = request
        self._doing = doing
        self._limit = limit
        self.deadline = time.monotonic() + limit
        self.outcome = None
        self.busy = True
        if not self.ended:
            self.channel.send(encode(request), fds)
        else:
            self._settle(WorkerDied(self._what(), "its process had ended before."))

    def take(self) -> Reply | WorkerError:
        """The outcome of the request, once it is there."""
        outcome, self.outcome = self.outcome, None
        assert outcome is not None
        return outcome

    def read(self) -> None:
        """Take an answer from the channel, if one is whole."""
        try:
            payload = self.channel.receive()
            if payload is not None:
                self._accept(decode_reply(payload))
        except BrokenChannel as exc:
            self.fail(self.broken(exc))
        except EOFError:
            # The pidfd tells of its end; a live process that closes its channel is of no use.
            if self.child.poll() is None and not self.child.wait(1.0):
                self.fail(self.broken(BrokenChannel("it closed its channel")))
            else:
                self.died()

    def died(self) -> None:
        """The process has ended; an answer that it left behind still counts."""
        if self.busy:
            self._read_rest()
        code = self.child.end()
        lines = self._last_lines()
        self.fail(WorkerDied(self._what(), f"its process {describe_exit(code)}.", log=lines))

    def broken(self, reason: Exception) -> WorkerDied:
        """End a process that does not keep to the protocol; the error to raise."""
        lines = self._last_lines()
        self.end()
        return WorkerDied(self._what(), f"its process was ended, because {reason}.", log=lines)

    def overdue(self) -> None:
        """Its limit has passed."""
        problem = f"no answer within {self._limit:g} s; its process was ended."
        self.fail(WorkerTimeout(self._what(), problem, log=self._last_lines()))

    def fail(self, error: WorkerError) -> None:
        """End the process, and let the request that was under way fail with an error."""
        self.end()
        if self.busy:
            self._settle(error)

    def end(self) -> None:
        """End the process now and free everything; harmless when repeated."""
        self.ended = True
        self.child.end()
        self.channel.close()
        self.log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _accept(self, reply: Reply) -> None:
        if not self.busy or self._request is None:
            raise BrokenChannel("it answered without having been asked")
        check(self._request, reply)
        if isinstance(reply, Failed):
            self._settle(self._raised(reply))
        else:
            self._settle(reply)

    def _raised(self, reply: Failed) -> WorkerError:
        return WorkerRaised(
            self._what(),
            reply.kind,
            reply.message,
            contract=reply.contract,
            traceback=reply.traceback,
            log="" if reply.contract else self._last_lines(),
        )

    def _read_rest(self) -> None:
        try:
            payload = self.channel.receive()
            if payload is not None:
                self._accept(decode_reply(payload))
        except (BrokenChannel, EOFError):
            return

    def _settle(self, outcome: "Reply | WorkerError") -> None:
        self.busy = False
        self.deadline = float("inf")
        self.outcome = outcome

    def _last_lines(self) -> str:
        if self.log.read_end >= 0:
            self.log.drain()
        return self.log.tail()

    def _what(self) -> str:
        return f"{self._doing} in {self.name}" if self.name else self._doing


class Switchboard:
    """Waits for many workers at once."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._workers: set[Worker] = set()
        self._full: set[Worker] = set()

    def add(self, worker: Worker) -> None:
        """Watch a worker."""
        self._workers.add(worker)
        read = selectors.EVENT_READ
        self._selector.register(worker.channel.fileno(), read, (worker, "channel"))
        self._selector.register(worker.child.pidfd, read, (worker, "end"))
        self._selector.register(worker.log.read_end, read, (worker, "log"))

    def remove(self, worker: Worker) -> None:
        """Watch it no more; before its descriptors are closed, and harmless when repeated."""
        if worker not in self._workers:
            return
        self._workers.discard(worker)
        self._full.discard(worker)
        for key in list(self._selector.get_map().values()):
            if key.data[0] is worker:
                self._selector.unregister(key.fileobj)

    def wait(self, timeout: float | None = None) -> list[Worker]:
        """Wait until something happens; the workers that have an outcome by then."""
        now = time.monotonic()
        nearest = min((w.deadline for w in self._workers), default=float("inf"))
        until = min(nearest, float("inf") if timeout is None else now + timeout)
        patience = None if until == float("inf") else max(0.0, until - now)
        self._watch_for_room()
        for key, _ in self._selector.select(patience):
            self._handle(*key.data)
        now = time.monotonic()
        for worker in [w for w in self._workers if w.busy and w.deadline <= now]:
            self.remove(worker)
            worker.overdue()
        return [w for w in self._workers if w.outcome is not None]

    def close(self, workers: Iterable[Worker], *, limit: float) -> None:
        """Let workers close their envs and end; those that take too long are ended."""
        closing = list(workers)
        for worker in closing:
            if not worker.ended:
                self._hang_up(worker)
        deadline = time.monotonic() + limit
        for worker in closing:
            while not worker.ended and time.monotonic() < deadline:
                if worker.child.wait(0.005):
                    break
                worker.log.drain()
            self.remove(worker)
            worker.end()

    def dispose(self) -> None:
        """Free the selector; no worker is watched any more."""
        self._selector.close()

    def _hang_up(self, worker: Worker) -> None:
        self.remove(worker)
        worker.channel.close()

    def _handle(self, worker: Worker, what: str) -> None:
        if worker not in self._workers:  # an event before this one ended it
            return
        if what == "channel":
            if worker.channel.unsent:
                worker.channel.flush()
            worker.read()
        elif what == "end":
            self.remove(worker)
            worker.died()
        elif not worker.log.drain():
            self._selector.unregister(worker.log.read_end)
        if worker.ended:
            self.remove(worker)

    def _watch_for_room(self) -> None:
        """Where something could not be sent at once, also wake up when there is room."""
        for worker in self._workers:
            if worker.channel.unsent != (worker in self._full):
                self._full ^= {worker}
                events = selectors.EVENT_READ
                if worker in self._full:
                    events |= selectors.EVENT_WRITE
                fd = worker.channel.fileno()
                self._selector.modify(fd, events, (worker, "channel"))


def exchange(board: Switchboard, workers: Sequence[Worker]) -> list[Reply | WorkerError]:
    """Wait until each of these workers, which all were asked, has an outcome."""
    while any(worker.busy for worker in workers):
        board.wait()
    return [worker.take() for worker in workers]


def exchange_one(board: Switchboard, worker: Worker, kind: type[R]) -> R:
    """Wait for one worker's answer; what went wrong is raised."""
    [outcome] = exchange(board, [worker])
    if isinstance(outcome, WorkerError):
        raise outcome
    assert isinstance(outcome, kind)  # `protocol.check` saw to it
    return outcome
