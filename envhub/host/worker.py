"""The host's side of a worker process: starting it, asking it, ending it."""

import math
import select
import signal
import sys
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
from envhub.host.hints import explain_failure, find_hint
from envhub.host.log import Log
from envhub.host.start import Ends, start
from envhub.process import describe_exit
from envhub.removal import remove_tree
from envhub.sandbox import bubblewrap
from envhub.scratch import make_scratch
from envhub.types import Confinement, PolicySpec, WorkerSpec
from envhub.wire.frames import BrokenChannel, HostChannel
from envhub.wire.messages import (
    MAX_TASKS,
    Failed,
    Making,
    Play,
    QuickStep,
    QuickStepped,
    Reply,
    Request,
    check,
    decode_reply,
    encode,
)

_MOST_LOADING = 12
"""The time that all envs of a file may take together, in time limits of one: an hour by default."""


class Worker:
    """A worker process. It is asked one request at a time."""

    def __init__(
        self, name: str, spec: WorkerSpec | PolicySpec, *, log: Path | None = None
    ) -> None:
        """Start the process.

        Args:
            name: Its name in errors, e.g. `env 3`.
            spec: What to run, on which interpreter, and in which sandbox.
            log: A file for the beginning of its output.
        """
        if sys.platform != "linux":
            raise UnsupportedPlatform(
                "EnvHub runs on Linux only: its workers need memfd and pidfd."
            )
        self.name = name
        self.spec = spec
        self.reply: Reply | WorkerError | None = None
        self.busy = False
        self.ended = False
        self.deadline = math.inf
        self._limit = 0.0
        self._since = 0.0
        """When the request was sent, or its last progress was seen."""
        self.subject = ""
        self.making: str | None = None
        """The task of a file whose env is made, to answer Load."""
        self._announced: set[str] = set()
        """The tasks whose envs were made so far."""
        self._loading_ends = math.inf
        self._request: Request | None = None
        self._verb = "start"
        self._poll: select.poll | None = None
        self.pulse: Callable[[], int] | None = None
        self._last_pulse = 0
        self._ending = "its process had ended before."
        with ExitStack() as undo:  # if one of these fails, free those before it
            self._scratch = make_scratch()
            undo.callback(remove_tree, self._scratch)
            self.channel = HostChannel()
            undo.callback(self.channel.close)
            self.log = Log(log)
            undo.callback(self.log.close)
            channel = self.channel.worker_end.fileno()
            self.child = start(spec, Ends(self._scratch, channel, self.log.write_end))
            undo.pop_all()
        # Only the worker holds these ends now, so that the host notices when it closes them.
        self.channel.worker_end.close()
        self.log.hand_over()

    def next_id(self) -> int:
        """Return the id of the next request."""
        return self._request.id + 1 if self._request else 1

    def ask(self, request: Request, limit: float, verb: str, fds: tuple[int, ...] = ()) -> None:
        """Send a request without waiting.

        Args:
            request: Its id must be `next_id()`.
            limit: Seconds until it must be answered.
            verb: Its name in errors, e.g. `step`; they add the worker's subject.
            fds: Descriptors to send along.
        """
        self._request = request
        self._verb = verb
        self._last_pulse = 0
        self._limit = limit
        self._since = time.monotonic()
        self.deadline = self._since + limit
        self.reply = None
        self.busy = True
        if not self.ended:
            self.channel.send(encode(request), fds)
        else:
            self._settle(WorkerDied(self._doing(), self._ending, log=self.log.tail()))

    def quick_step(
        self, number: int, limit: float, now: float, *, sent: bool, scored: bool = False
    ) -> None:
        """Ask for a step with the action in shared memory, by an empty frame.

        Args:
            number: The id of the request.
            limit: Seconds until it must be answered.
            now: When it was sent, on the monotonic clock.
            sent: Whether the empty frame was sent already.
            scored: Whether it follows a scored step.
        """
        self._request = QuickStep(number, scored)
        self._verb = "step"
        self._last_pulse = 0
        self._limit = limit
        self.deadline = now + limit
        self.reply = None
        self.busy = True
        if self.ended:
            self._settle(WorkerDied(self._doing(), self._ending, log=self.log.tail()))
        elif not sent:
            self.channel.send(b"")

    def quick_stepped(self) -> None:
        """Accept an empty answer: the step was taken, and its result is in shared memory."""
        assert self._request is not None
        self._settle(QuickStepped(self._request.id))

    def check_silent(self) -> None:
        """End the worker if it has sent anything without being asked."""
        if self.channel.unread:
            self.fail(self.broken(BrokenChannel("it answered without being asked")))

    def wait(self) -> Reply | WorkerError:
        """Wait for the reply of the current request."""
        while self.busy:
            self.read()
            if self.busy:
                self._block()
        return self.take()

    def wait_briefly(self) -> bool:
        """Wait up to 10 ms for the reply, in the cheapest way, and return whether it came."""
        if self.busy:
            self._read_safely(self._receive_quickly)
        return not self.busy

    def take(self) -> Reply | WorkerError:
        """Return the reply of the request, which must have come."""
        reply, self.reply = self.reply, None
        assert reply is not None
        return reply

    def read(self) -> None:
        """Read the answer from the channel if it has arrived whole."""
        self._read_safely(self._receive)

    def _read_safely(self, read: Callable[[], None]) -> None:
        """Call `read`, and handle a worker that has died or broken the protocol."""
        try:
            read()
        except BrokenChannel as exc:
            self.fail(self.broken(exc))
        except EOFError:
            # A dying process closes its channel before its pidfd reports the end. A worker that
            # closes it and does not end cannot be asked anything again.
            if self.child.poll() is None and not self.child.wait(1.0):
                self.fail(self.broken(BrokenChannel("it closed its channel")))
            else:
                self.died()

    def _receive(self) -> None:
        payload = self.channel.receive()
        while payload is not None:
            self._accept(decode_reply(payload, self._request))
            payload = self.channel.receive() if self.busy else None  # more if it was no answer yet

    def _receive_quickly(self) -> None:
        """Wait up to 10 ms. Usually an empty frame answers a quick step: nothing to decode."""
        if not self.channel.received_empty():
            self._receive()
        elif type(self._request) is QuickStep and not self.channel.unsent:
            self.quick_stepped()
        else:
            raise BrokenChannel("it sent an invalid answer: an empty frame")

    def died(self) -> None:
        """Handle the end of the process; an answer that it sent before still counts."""
        if self.busy:
            self._read_rest()
        code = self.child.end()
        lines = self._last_lines()
        if self._sandboxed and self.next_id() <= 2:  # before its first answer
            bubblewrap.forget()  # that it works here is cached, and may be no longer true
        killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)  # no word of its own
        hint = "" if killed else find_hint(lines, "", self._confinement)
        problem = f"its process {describe_exit(code)}."
        self.fail(WorkerDied(self._doing(), problem, log=lines, hint=hint))

    def broken(self, reason: Exception) -> WorkerDied:
        """End a process that broke the protocol, and return the error to raise."""
        lines = self._last_lines()
        self.end()
        return WorkerDied(self._doing(), f"its process was ended, because {reason}.", log=lines)

    def overdue(self) -> None:
        """Fail the request, whose time limit has passed.

        A request for many steps gets more time if a step was taken since the last check: the limit
        applies to one step.
        """
        pulse = self.pulse() if self.pulse is not None else 0
        if isinstance(self._request, Play) and self.pulse is not None:
            self._check_play(self._request, pulse)
            return
        # The worker writes the pulse: more steps than it was asked for are a lie and gain no time.
        if self._last_pulse < pulse <= 2 * getattr(self._request, "count", 0):
            self._last_pulse = pulse
            self.deadline = time.monotonic() + self._limit
            return
        self._time_out(self._limit)

    def _check_play(self, request: Play, pulse: int) -> None:
        """Hold the limit of what a worker with a policy is doing: a reset, a step or a call.

        Before the first step the pulse is 0 in the reset and 1 while the policy acts; it returns to
        0 from the policy's start, and only a larger one than ever gains time.
        """
        now = time.monotonic()
        if self._last_pulse < pulse <= 2 * request.count:
            self._last_pulse, self._since = pulse, now
        limits = self.spec.limits
        if pulse % 2:
            before = limits.reset if request.fresh and pulse == 1 else 0.0
            self._verb, limit = "act", limits.act + before
        else:
            self._verb, limit = ("step", limits.step) if pulse else ("reset", limits.reset)
        left = self._since + limit - now
        if left > 0:
            self.deadline = now + min(left, self._limit)
        else:
            self._time_out(limit)

    def _time_out(self, limit: float) -> None:
        problem = f"no answer within {limit:g} s; its process was ended."
        self.fail(WorkerTimeout(self._doing(), problem, log=self._last_lines()))

    def fail(self, error: WorkerError) -> None:
        """End the process, and let the current request fail with an error."""
        error.where = self._at_fault()
        self.end()
        if self.busy:
            self._settle(error)
        else:  # the next request reports it
            self._ending = error.problem

    def end(self) -> None:
        """End the process now and free its resources; harmless when repeated."""
        self.ended = True
        self.child.end()
        self.channel.close()
        self.log.close()
        remove_tree(self._scratch)

    def _block(self) -> None:
        """Wait until something happens to this process, and handle it."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            self.overdue()
            return
        room = select.POLLOUT if self.channel.unsent else 0
        poll = self._own_poll()
        poll.modify(self.channel.fileno(), select.POLLIN | room)
        for fd, _ in poll.poll(seconds * 1000.0):
            if fd == self.log.read_end:  # read on, or a worker that prints much would block
                if not self.log.drain():
                    poll.unregister(fd)
            elif fd == self.child.pidfd:
                self.died()
                return
            elif room:  # an answer is left to `wait`, which reads before it blocks again
                self.channel.flush()

    def _own_poll(self) -> select.poll:
        if self._poll is None:
            self._poll = select.poll()
            for fd in (self.channel.fileno(), self.child.pidfd, self.log.read_end):
                self._poll.register(fd, select.POLLIN)
        return self._poll

    def _accept(self, reply: Reply) -> None:
        if not self.busy or self._request is None:
            raise BrokenChannel("it answered without being asked")
        if self.channel.unsent:  # it cannot have read the whole request
            raise BrokenChannel("it answered before it was asked")
        if type(reply) is not QuickStepped:
            check(self._request, reply)
        if isinstance(reply, Making):
            self._announce(reply)
            return
        self.making = None
        self._settle(self._raised(reply) if isinstance(reply, Failed) else reply)

    def _announce(self, making: Making) -> None:
        """Note which env the worker makes: each has the whole time, and all have a multiple."""
        if making.task in self._announced:
            raise BrokenChannel(f"it makes the env of {making.task!r} twice")
        if len(self._announced) == MAX_TASKS:
            raise BrokenChannel(f"it makes more than {MAX_TASKS:,} envs")
        now = time.monotonic()
        if not self._announced:
            self._loading_ends = now + _MOST_LOADING * self._limit
        self._announced.add(making.task)
        self.making = making.task
        self.deadline = min(now + self._limit, self._loading_ends)

    def _raised(self, reply: Failed) -> WorkerError:
        lines = "" if reply.contract else self._last_lines()  # EnvHub's own message says it all
        self.log.keep(reply.traceback)
        return WorkerRaised(
            self._doing(),
            reply.kind,
            reply.message,
            contract=reply.contract,
            traceback=reply.traceback,
            where=reply.where,
            log=lines,
            place=reply.place,
            hint=explain_failure(reply, self._confinement),
        )

    def _read_rest(self) -> None:
        try:
            self._receive()
        except (BrokenChannel, EOFError):
            return

    def _at_fault(self) -> Literal["env", "policy"]:
        """Return whose code was running: the pulse is odd while a policy in the worker acts."""
        acting = self.pulse is not None and isinstance(self._request, Play) and self.pulse() % 2
        return "policy" if isinstance(self.spec, PolicySpec) or acting else "env"

    @property
    def _confinement(self) -> Confinement | None:
        return self.spec.confinement if isinstance(self.spec, WorkerSpec) else None

    @property
    def _sandboxed(self) -> bool:
        confinement = self._confinement
        return confinement is not None and confinement.in_sandbox

    def _settle(self, reply: "Reply | WorkerError") -> None:
        self.busy = False
        self.deadline = math.inf
        self.reply = reply

    def _last_lines(self) -> str:
        if self.log.read_end >= 0:  # not closed
            self.log.drain()
        return self.log.tail()

    def _doing(self) -> str:
        doing = f"{self._verb} of {self.subject}" if self.subject else self._verb
        if self.making is not None:
            doing = f"making the env of task {self.making!r}"
        return f"{doing} in {self.name}" if self.name else doing
