"""A worker without a process: the same requests, answered here. For `--workers 0` and debuggers."""

import math
import os
import traceback
from collections import deque
from typing import Any

from envhub.errors import UsageError, WorkerError, WorkerRaised
from envhub.types import WorkerSpec
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
    """Has what the engine uses of a `Worker`; every request is answered before `ask` returns."""

    def __init__(self, name: str, spec: WorkerSpec) -> None:
        from envhub.worker.session import Session

        if spec.confinement is not None:
            raise UsageError("Code of the Hub runs in workers only, never in this process.")
        self.name = name
        self.subject = ""
        self.outcome: Reply | WorkerError | None = None
        self.busy = False
        self.ended = False
        self.deadline = math.inf
        self.pulse: Any = None
        self._last = 0
        self._fds: deque[int] = deque()
        self._session = Session(self)

    def next_id(self) -> int:
        """The number of the next request."""
        return self._last + 1

    def ask(self, request: Request, limit: float, verb: str, fds: tuple[int, ...] = ()) -> None:
        """Answer a request; there is no limit."""
        self._fds.extend(os.dup(fd) for fd in fds)
        self._take_in(request, self._session.answer(request), verb)

    def quick_step(
        self, number: int, limit: float, now: float, *, sent: bool, scored: bool = False
    ) -> None:
        """Take a step with what is in shared memory."""
        self._take_in(QuickStep(number, scored), self._session.quick_step(number), "step")

    def _take_in(self, request: Request, answer: bytes, verb: str) -> None:
        self._last = request.id
        reply = decode_reply(answer, request)
        if type(reply) is not QuickStepped:
            check(request, reply)
        if isinstance(reply, Failed):
            what = f"{verb} of {self.subject} in {self.name}"
            self.outcome = WorkerRaised(
                what,
                reply.kind,
                reply.message,
                contract=reply.contract,
                traceback=reply.traceback,
                where=reply.where,
            )
        else:
            self.outcome = reply

    def take_fd(self) -> int:
        """The oldest descriptor that came along."""
        return self._fds.popleft()

    def expect_fds(self, *, expecting: bool) -> None:
        """They come along with the request itself."""

    def wait(self) -> Reply | WorkerError:
        """The outcome, which is there already."""
        return self.take()

    def take(self) -> Reply | WorkerError:
        """The outcome of the request."""
        outcome, self.outcome = self.outcome, None
        assert outcome is not None
        return outcome

    def broken(self, reason: Exception) -> WorkerError:
        """The error for an answer that makes no sense."""
        return WorkerError(self.subject, str(reason))

    def end(self) -> None:
        """Close the env."""
        self.ended = True
        try:
            self._session.close()
        except (Exception, SystemExit):  # what was recorded stands
            traceback.print_exc()
