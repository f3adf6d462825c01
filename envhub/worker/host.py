"""A worker process as the host sees it: starting it, asking it, ending it."""

import math
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from envhub.errors import (
    UnsupportedPlatform,
    WorkerDied,
    WorkerError,
    WorkerRaised,
    WorkerTimeout,
)
from envhub.process import Child, describe_exit, remove_tree, spawn
from envhub.runtime.trials import forget
from envhub.runtime.variables import worker_variables
from envhub.types import HERE, Confinement, Interpreter
from envhub.worker import nursery
from envhub.worker.channel import BrokenChannel, HostChannel
from envhub.worker.launch import python_for, start_inside
from envhub.worker.log import Log
from envhub.worker.protocol import (
    Failed,
    Play,
    Reply,
    Request,
    Tick,
    Ticked,
    check,
    decode_reply,
    encode,
)

Role = Literal["env", "policy"]


class Worker:
    """A worker process as the host sees it. It is asked one thing at a time."""

    def __init__(
        self,
        name: str,
        *,
        role: Role = "env",
        log: Path | None = None,
        confinement: Confinement | None = None,
        interpreter: Interpreter = HERE,
    ) -> None:
        """Start the process.

        Args:
            name: What errors call it, e.g. `env 3`.
            role: What it is to run.
            log: A file for the beginning of its output.
            confinement: What it is kept from.
            interpreter: What it runs on.
        """
        if sys.platform != "linux":
            raise UnsupportedPlatform(
                "EnvHub runs on Linux only: its workers need memfd and pidfd."
            )
        self.name = name
        self._role = role
        self._confined = confinement is not None and confinement.sandbox != "none"
        self.outcome: Reply | WorkerError | None = None
        self.busy = False
        self.ended = False
        self.deadline = math.inf
        self._limit = 0.0
        self.subject = ""
        self._request: Request | None = None
        self._verb = "start"
        self._poll: select.poll | None = None
        self.pulse: Callable[[], int] | None = None
        self._beat = 0
        self._ending = "its process had ended before."
        with ExitStack() as undo:  # if one of these cannot be had, none is kept
            self._scratch = Path(tempfile.mkdtemp(prefix="envhub-"))
            undo.callback(remove_tree, self._scratch)
            self.channel = HostChannel()
            undo.callback(self.channel.close)
            self.log = Log(log)
            undo.callback(self.log.close)
            self.child = self._start(role, confinement, interpreter)
            undo.pop_all()
        self.channel.worker_end.close()
        self.log.hand_over()

    def _start(
        self, role: Role, confinement: Confinement | None, interpreter: Interpreter
    ) -> Child:
        scratch, output = self._scratch, self.log.write_end
        end = self.channel.worker_end.fileno()
        if confinement is not None and self._confined:
            return start_inside(
                confinement, interpreter, scratch=scratch, channel=end, output=output
            )
        isolated = interpreter.kind == "isolated"
        python = python_for(interpreter, "envhub.worker.__main__")
        if role == "env":
            variables = worker_variables(scratch, isolated=isolated)
            return nursery.start(python, variables, scratch, end, output)
        return spawn(
            [*python, role, str(end), str(os.getpid()), str(scratch)],
            # A policy is the user's own: it has their variables, home and directory.
            env=_users_own(isolated=isolated),
            cwd=Path.cwd(),
            output=output,
            pass_fds=(end,),
        )

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
        self._beat = 0
        self._limit = limit
        self.deadline = time.monotonic() + limit
        self.outcome = None
        self.busy = True
        if not self.ended:
            self.channel.send(encode(request), fds)
        else:
            self._settle(WorkerDied(self._what(), self._ending, log=self.log.tail()))

    def tick(
        self, number: int, limit: float, now: float, *, sent: bool, scored: bool = False
    ) -> None:
        """Ask for a step with what is in shared memory.

        Args:
            number: That of the request.
            limit: Seconds until it must be answered.
            now: When it was asked, on the monotonic clock.
            sent: Whether the request is on its way.
            scored: Whether it follows a scored step.
        """
        self._request = Tick(number, scored)
        self._verb = "step"
        self._beat = 0
        self._limit = limit
        self.deadline = now + limit
        self.outcome = None
        self.busy = True
        if self.ended:
            self._settle(WorkerDied(self._what(), self._ending, log=self.log.tail()))
        elif not sent:
            self.channel.send(b"")

    def ticked(self) -> None:
        """Its answer to a tick has come: nothing but that it took the step."""
        assert self._request is not None
        self._settle(Ticked(self._request.id))

    def must_be_silent(self) -> None:
        """End it if it has sent more than it was asked for."""
        if self.channel.unread:
            self.fail(self.broken(BrokenChannel("it answered without having been asked")))

    def wait(self) -> Reply | WorkerError:
        """Wait for the outcome of the request that is under way."""
        while self.busy:
            self.read()
            if self.busy:
                self._block()
        return self.take()

    def settle_soon(self) -> bool:
        """Wait some milliseconds for the outcome, in the cheapest way; says if it is there."""
        if self.busy:
            self._see(self._tick_or_more)
        return not self.busy

    def take(self) -> Reply | WorkerError:
        """The outcome of the request, once it is there."""
        outcome, self.outcome = self.outcome, None
        assert outcome is not None
        return outcome

    def read(self) -> None:
        """Take an answer from the channel, if one is whole."""
        self._see(self._receive)

    def _see(self, look: Callable[[], None]) -> None:
        """Look at the channel, and see to what can be wrong with it."""
        try:
            look()
        except BrokenChannel as exc:
            self.fail(self.broken(exc))
        except EOFError:
            # The pidfd tells of its end; a live process that closes its channel is of no use.
            if self.child.poll() is None and not self.child.wait(1.0):
                self.fail(self.broken(BrokenChannel("it closed its channel")))
            else:
                self.died()

    def _receive(self) -> None:
        payload = self.channel.receive()
        if payload is not None:
            self._accept(decode_reply(payload, self._request))

    def _tick_or_more(self) -> None:
        """Wait a little; most often a tick is answered, and then nothing has to be decoded."""
        if not self.channel.ticked():
            self._receive()
        elif type(self._request) is Tick and not self.channel.unsent:
            self.ticked()
        else:
            raise BrokenChannel("it sent no valid answer: an empty one")

    def died(self) -> None:
        """The process has ended; an answer that it left behind still counts."""
        if self.busy:
            self._read_rest()
        code = self.child.end()
        lines = self._last_lines()
        if self._confined and self.next_id() <= 2:  # before its first answer
            forget()
        self.fail(WorkerDied(self._what(), f"its process {describe_exit(code)}.", log=lines))

    def broken(self, reason: Exception) -> WorkerDied:
        """End a process that does not keep to the protocol; the error to raise."""
        lines = self._last_lines()
        self.end()
        return WorkerDied(self._what(), f"its process was ended, because {reason}.", log=lines)

    def overdue(self) -> None:
        """Its limit has passed. If it takes many steps and took one since, it gets more time."""
        beat = self.pulse() if self.pulse is not None else 0
        if self._beat < beat <= 2 * getattr(self._request, "count", 0):
            self._beat = beat
            self.deadline = time.monotonic() + self._limit
            return
        problem = f"no answer within {self._limit:g} s; its process was ended."
        self.fail(WorkerTimeout(self._what(), problem, log=self._last_lines()))

    def fail(self, error: WorkerError) -> None:
        """End the process, and let the request that was under way fail with an error."""
        error.where = self._whose()
        self.end()
        if self.busy:
            self._settle(error)
        else:  # whoever asks next is told
            self._ending = error.problem

    def end(self) -> None:
        """End the process now and free everything; harmless when repeated."""
        self.ended = True
        self.child.end()
        self.channel.close()
        self.log.close()
        remove_tree(self._scratch)

    def _block(self) -> None:
        """Wait until something happens to this process, and see to it."""
        patience = self.deadline - time.monotonic()
        if patience <= 0:
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
        if self.channel.unsent:
            raise BrokenChannel("it answered before it was asked")
        if type(reply) is not Ticked:
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
            where=reply.where,
            log="" if reply.contract else self._last_lines(),
        )

    def _read_rest(self) -> None:
        try:
            self._receive()
        except (BrokenChannel, EOFError):
            return

    def _whose(self) -> Literal["env", "policy"]:
        """Whose code was running: the pulse is odd while a policy beside the env acts."""
        beside = self.pulse is not None and isinstance(self._request, Play) and self.pulse() % 2
        return "policy" if self._role == "policy" or beside else "env"

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


def _users_own(*, isolated: bool) -> dict[str, str]:
    """The user's variables, without those that bring packages of the host into a runtime."""
    left_out = ("PYTHONPATH", "PYTHONHOME") if isolated else ()
    return {name: value for name, value in os.environ.items() if name not in left_out}
