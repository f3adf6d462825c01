"""The worker processes behind one vector environment: opened together, failing together."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from envhub.errors import WorkerError
from envhub.host.inline import InlineWorker
from envhub.host.loading import LazySpec, explaining
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import LockstepSteps, WorkerPoller, close_workers
from envhub.host.worker import Worker
from envhub.types import Limits, WorkerSpec
from envhub.vector.batches import Batches
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import Buffers, make_memory, needed_bytes
from envhub.wire.messages import Done, Loaded, Opened, QuickStepped, Reply, Stepped, WasReset
from envhub.wire.spaces import Spaces
from envhub.wire.values import Array

R = TypeVar("R")

_TOLD = -1
"""Instead of the number of a quick step whose outcome is in the env's answer."""


class WorkerPool:
    """Workers with one env each, all of one task."""

    def __init__(self, spec: WorkerSpec | LazySpec, suite: str, task: str, size: int) -> None:
        self._spec = spec
        self._suite = suite
        self._task = task
        self._size = size
        self._pid = os.getpid()
        self.remotes: list[RemoteEnv] = []
        self.opened: Opened | None = None
        self.spaces: Spaces | None = None
        self.buffers: Buffers | None = None
        self.batches: Batches | None = None
        self._lockstep: LockstepSteps | None = None
        self._plain = True  # the last quick steps were answered by empty frames

    def open_first(self) -> None:
        """Make one env, to know what they are like."""
        if not self.remotes:
            self._hire(1)

    def open_all(self) -> Buffers:
        """Make all envs, and the memory that they share."""
        if self.buffers is None:
            self._hire(self._size - len(self.remotes))
            self.buffers = self._share()
            self.batches = Batches(self.buffers.observations)
        return self.buffers

    def ask_all(self, ask: Callable[[int, RemoteEnv], None], kind: type[R]) -> list[R]:
        """Ask every env and wait; if one of them fails, all end and its error is raised."""
        return self.ask(range(len(self.remotes)), ask, kind)

    def ask(
        self, rows: Iterable[int], ask: Callable[[int, RemoteEnv], None], kind: type[R]
    ) -> list[R]:
        """Ask some envs and wait; if one of them fails, all end and its error is raised."""
        outcomes = self._exchange(rows, ask)
        self._raise_first(outcomes)
        return outcomes  # type: ignore[return-value]  # `protocol.check` saw to their kind

    def question(self, ask: Callable[[int, RemoteEnv], None], kind: type[R]) -> list[R]:
        """Ask every env something that may fail without harm; the first error is raised."""
        outcomes = self._exchange(range(len(self.remotes)), ask)
        if any(remote.worker.ended for remote in self.remotes):
            self._raise_first(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, WorkerError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, kind)]

    def quick_step(self, on_answer: Callable[[int], None] | None) -> Array | list[Stepped]:
        """Step every env with its action in shared memory.

        Args:
            on_answer: Called for each row whose observation is complete, while others compute.

        Returns:
            What came of it, as `Buffers.outcomes`; or the envs' answers, if one says more.
        """
        try:
            if self._plain and (lockstep := self._steps_together()).step(on_answer):
                return self._outcomes(lockstep.numbers())
            self._ask_for_quick_steps()
        except BaseException:  # an interrupt
            self._stop_lockstep()
            self.close()
            raise
        replies = self._await([remote.worker for remote in self.remotes], on_answer)
        self._raise_first(replies)
        numbers = [reply.id if type(reply) is QuickStepped else _TOLD for reply in replies]
        outcomes = self._outcomes(np.array(numbers))
        self._plain = _TOLD not in numbers
        return outcomes if self._plain else spelled(outcomes, replies)

    def texts(self, row: int, reply: WasReset | Stepped) -> dict[str, str]:
        """The texts of an env's observation; if they make no sense, all end."""
        try:
            return self.remotes[row].texts(reply)
        except WorkerError:
            self.close()
            raise

    def close(self) -> None:
        """End all workers, after they had time to close their envs."""
        if os.getpid() != self._pid:  # a fork of the host has no say over its workers
            return
        self.buffers = self.batches = self._lockstep = None
        workers = [remote.worker for remote in self.remotes]
        if workers:
            close_workers(workers, limit=self._limits().close)
        self.remotes = []

    def _exchange(
        self, rows: Iterable[int], ask: Callable[[int, RemoteEnv], None]
    ) -> list[Reply | WorkerError]:
        """Ask and wait, and leave no env with an answer that nobody takes."""
        self._stop_lockstep()
        asked: list[Worker | InlineWorker] = []
        try:
            for row in rows:
                ask(row, self.remotes[row])
                asked.append(self.remotes[row].worker)
        except Exception:  # the caller's: a value that cannot cross
            for worker in asked:
                worker.wait()
            raise
        return self._await(asked)

    def _await(
        self,
        asked: Sequence[Worker | InlineWorker],
        on_answer: Callable[[int], None] | None = None,
    ) -> list[Reply | WorkerError]:
        """Wait for the answers, in turn as long as they come soon."""
        try:
            for number, worker in enumerate(asked):
                if worker.busy and isinstance(worker, Worker) and not worker.wait_briefly():
                    _watch(asked)
                if on_answer is not None:
                    on_answer(number)
            return [worker.take() for worker in asked]
        except BaseException:  # an interrupt
            self.close()
            raise

    def _steps_together(self) -> LockstepSteps:
        if self._lockstep is None:
            self._lockstep = LockstepSteps(self._processes())
        return self._lockstep

    def _ask_for_quick_steps(self) -> None:
        """Ask each env for a step, or those that were not asked together with the others."""
        if self._lockstep is not None:
            self._stop_lockstep()
            return
        now, limit = time.monotonic(), self._limits().step
        for worker in self._processes():
            worker.quick_step(worker.next_id(), limit, now, sent=False)

    def _stop_lockstep(self) -> None:
        lockstep, self._lockstep = self._lockstep, None
        if lockstep is not None:
            lockstep.stop(self._limits().step)

    def _processes(self) -> list[Worker]:
        return [remote.worker for remote in self.remotes if isinstance(remote.worker, Worker)]

    def _outcomes(self, numbers: Array) -> Array:
        """What came of the quick steps.

        Args:
            numbers: What each env must have noted down, or `_TOLD`.
        """
        assert self.buffers is not None
        outcomes = self.buffers.outcomes()
        wrong = (outcomes["tick"] != numbers) & (numbers != _TOLD)
        if wrong.any():
            raise self._lied(int(wrong.argmax()))
        return outcomes

    def _lied(self, row: int) -> WorkerError:
        """End all, because one answered a quick step that it never took; the error to raise."""
        self._stop_lockstep()
        reason = BrokenChannel("it answered a step that it never took")
        error = self.remotes[row].worker.broken(reason)
        self.close()
        return error

    def _limits(self) -> Limits:
        return self._spec.limits

    def _hire(self, count: int) -> None:
        new = range(len(self.remotes), len(self.remotes) + count)
        spec = self._spec = self._spec.get() if isinstance(self._spec, LazySpec) else self._spec
        try:
            for row in new:
                self.remotes.append(RemoteEnv(f"env {row}", spec))
        except BaseException:  # no more processes or descriptors are available
            self.close()
            raise
        self.ask(new, lambda _, remote: remote.load(), Loaded)
        with explaining(spec):
            opened = self.ask(new, lambda _, r: r.open(self._suite, self._task), Opened)
        for row, answer in zip(new, opened, strict=True):
            self._agree(row, answer)

    def _agree(self, row: int, answer: Opened) -> None:
        """All envs must have the spaces of the first."""
        try:
            spaces = self.remotes[row].spaces(answer)
            if self.spaces is None:
                self.opened, self.spaces = answer, spaces
            elif spaces != self.spaces:
                what = f"making the env of task {self._task!r} in env {row}"
                raise WorkerError(what, f"its spaces differ from env 0: {spaces} {self.spaces}")
        except WorkerError:
            self.close()
            raise

    def _share(self) -> Buffers:
        assert self.spaces is not None
        memory = make_memory(needed_bytes(self._size, *self.spaces))
        try:
            self.ask_all(lambda row, r: r.attach(memory, self._size, row), Done)
            return Buffers(memory, self._size, *self.spaces)
        finally:
            os.close(memory)

    def _raise_first(self, outcomes: Sequence[Reply | WorkerError]) -> None:
        errors = [outcome for outcome in outcomes if isinstance(outcome, WorkerError)]
        if not errors:
            return
        self.close()
        for other in errors[1:]:
            errors[0].add_note(f"Also: {other}")
        raise errors[0]


def _watch(workers: Sequence[Worker | InlineWorker]) -> None:
    """Wait for all at once: one that prints must not wait until a slower one has answered."""
    busy = [worker for worker in workers if worker.busy and isinstance(worker, Worker)]
    board = WorkerPoller()
    try:
        for worker in busy:
            board.add(worker)
        while any(worker.busy for worker in busy):
            board.wait()
    finally:
        board.dispose()


def spelled(outcomes: Array, replies: Sequence[Any] = ()) -> list[Stepped]:
    """Answers that say themselves what came of each step, where those that came do not."""
    found = list(replies) or [None] * len(outcomes)
    for row, reply in enumerate(found):
        if not isinstance(reply, Stepped):
            number, reward, terminated, truncated, _ = outcomes[row].item()
            flags = bool(terminated), bool(truncated)
            found[row] = Stepped(number, [reward], *flags, [], {}, {})
    return found


def as_attribute_error(error: WorkerError) -> Exception:
    """What a caller of `call` expects: an attribute that is not there is an AttributeError."""
    kind = getattr(error, "kind", "")
    for expected in (AttributeError, NotImplementedError):
        if kind == expected.__name__:
            return expected(str(error))
    return error
