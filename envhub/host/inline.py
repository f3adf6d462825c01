"""A worker without a process of its own: for `--workers 0` and debuggers."""

import math
import os
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from envhub.errors import UsageError, WorkerError, WorkerRaised
from envhub.host.hints import explain_failure
from envhub.host.log import add_to_log
from envhub.machine.gl_choice import gl_variables
from envhub.types import FileSource, WorkerSpec
from envhub.wire.messages import (
    Failed,
    QuickStep,
    QuickStepped,
    Reply,
    Request,
    check,
    decode_reply,
)


class InlineWorker:
    """Offers what the engine uses of a `Worker`; `ask` returns when the request is answered."""

    def __init__(self, name: str, spec: WorkerSpec, log: Path | None = None) -> None:
        from envhub.worker.session import Session

        if spec.confinement is not None:
            raise UsageError("Code from the Hub runs only in workers, never in this process.")
        self.name = name
        self.subject = ""
        self.making: str | None = None
        self.reply: Reply | WorkerError | None = None
        self.busy = False
        self.ended = False
        self.deadline = math.inf
        self.pulse: Any = None
        self._last = 0
        self._directory = spec.source.home if isinstance(spec.source, FileSource) else Path()
        self._variables = {**gl_variables({**os.environ, **spec.env_vars}), **spec.env_vars}
        self._fds: deque[int] = deque()
        self._log = log
        self._session = Session(self)

    def next_id(self) -> int:
        """Return the id of the next request."""
        return self._last + 1

    def ask(self, request: Request, limit: float, verb: str, fds: tuple[int, ...] = ()) -> None:
        """Answer a request at once; the limit is ignored."""
        self._fds.extend(os.dup(fd) for fd in fds)
        with self._in_place():
            answer = self._session.answer(request)
        self._settle(request, answer, verb)

    def quick_step(
        self, number: int, limit: float, now: float, *, sent: bool, scored: bool = False
    ) -> None:
        """Take a step with the action in shared memory."""
        with self._in_place():
            answer = self._session.quick_step(number)
        self._settle(QuickStep(number, scored), answer, "step")

    def _settle(self, request: Request, answer: bytes, verb: str) -> None:
        self._last = request.id
        reply = decode_reply(answer, request)
        if type(reply) is not QuickStepped:
            check(request, reply)
        if isinstance(reply, Failed):
            add_to_log(self._log, reply.traceback)
            self.reply = WorkerRaised(
                f"{verb} of {self.subject} in {self.name}",
                reply.kind,
                reply.message,
                contract=reply.contract,
                traceback=reply.traceback,
                where=reply.where,
                place=reply.place,
                hint=explain_failure(reply, None),
            )
        else:
            self.reply = reply

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Give code the directory and variables of a worker; the caller gets its own back."""
        before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        try:
            with chdir(self._directory):
                yield
        finally:
            # The code may have chosen another value.
            self._variables = {k: os.environ[k] for k in self._variables if k in os.environ}
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def send(self, payload: bytes) -> None:
        """Do nothing: what ends this process leaves nobody who would want to know."""

    def take_fd(self) -> int:
        """Return the oldest descriptor that came with a request."""
        return self._fds.popleft()

    def expect_fds(self, *, expecting: bool) -> None:
        """Do nothing: descriptors are passed to `ask` together with the request."""

    def wait(self) -> Reply | WorkerError:
        """Return the reply, which is available already."""
        return self.take()

    def take(self) -> Reply | WorkerError:
        """Return the reply of the request."""
        reply, self.reply = self.reply, None
        assert reply is not None
        return reply

    def broken(self, reason: Exception) -> WorkerError:
        """Return the error for an invalid answer."""
        return WorkerError(self.subject, str(reason))

    def end(self) -> None:
        """Close the env."""
        self.ended, self.pulse = True, None
        try:
            with self._in_place():
                self._session.close()
        except (Exception, SystemExit):  # no reason to lose the run's records
            traceback.print_exc()
