"""A worker process as the host sees it: starting it, asking it, ending it."""

import math
import os
import select
import shutil
import sys
import tempfile
import time
from pathlib import Path

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
        self.deadline = math.inf
        self._limit = 0.0
        self.subject = ""
        self._request: Request | None = None
        self._verb = "start"
        self._poll: select.poll | None = None
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

    def ask(self, request: Request, limit: float, verb: str, fds: tuple[int, ...] = ()) -> None:
        """Send a request without waiting.

        Args:
            request: Its id must be `next_id()`.
            limit: Seconds until it must be answered.
            verb: What errors call it, e.g. `step`; they add the worker's subject.
            fds: Descriptors to send along.
        """
        self._request = request
        self._verb = verb
        self._limit = limit
        self.deadline = time.monotonic() + limit
        self.outcome = None
        self.busy = True
        if not self.ended:
            self.channel.send(encode(request), fds)
        else:
            self._settle(WorkerDied(self._what(), "its process had ended before."))

    def wait(self) -> Reply | WorkerError:
        """Wait for the outcome of the request that is under way."""
        while self.busy:
            self.read()
            if self.busy:
                self._block()
        return self.take()

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

    def _block(self) -> None:
        """Wait until something happens to this process, and see to it."""
        patience = self.deadline - time.monotonic()
        if patience <= 0.0:
            self.overdue()
            return
        room = select.POLLOUT if self.channel.unsent else 0
        poll = self._own_poll()
        poll.modify(self.channel.fileno(), select.POLLIN | room)
        for fd, _ in poll.poll(patience * 1000.0):
            if fd == self.log.read_end:
                if not self.log.drain():
                    poll.unregister(fd)
            elif fd == self.child.pidfd:
                self.died()
                return
            elif room:
                self.channel.flush()

    def _own_poll(self) -> select.poll:
        if self._poll is None:
            self._poll = select.poll()
            for fd in (self.channel.fileno(), self.child.pidfd, self.log.read_end):
                self._poll.register(fd, select.POLLIN)
        return self._poll

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
        self.deadline = math.inf
        self.outcome = outcome

    def _last_lines(self) -> str:
        if self.log.read_end >= 0:
            self.log.drain()
        return self.log.tail()

    def _what(self) -> str:
        what = f"{self._verb} of {self.subject}" if self.subject else self._verb
        return f"{what} in {self.name}" if self.name else what
