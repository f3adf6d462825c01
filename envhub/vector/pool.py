"""The worker processes of one vector environment, which are opened and ended together."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from envhub.errors import WorkerError
from envhub.host.inline import InlineWorker
from envhub.host.loading import LazySpec, explaining
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import LockstepSteps, WorkerPoller, close_workers
from envhub.host.worker import Worker
from envhub.options import Limits
from envhub.types import WorkerSpec
from envhub.vector.batches import Batches
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import Buffers, make_memory, needed_bytes
from envhub.wire.messages import (
    Converted,
    Done,
    Loaded,
    Opened,
    QuickStepped,
    Reply,
    Stepped,
    WasReset,
)
from envhub.wire.spaces import Spaces
from envhub.wire.values import Array

R = TypeVar("R")

_IN_ANSWER = -1
"""Replaces the number of a quick step whose result is in the answer, not in shared memory."""


class Shown(NamedTuple):
    """How much of its observations an env shows."""

    needs: tuple[str, ...] | None = None
    """The parts that are read; None: all."""
    converted: bool = False
    """Whether the benchmark converts them to LeRobot's names."""


EVERYTHING = Shown()


class WorkerPool:
    """Workers with one env each, all of one task."""

    def __init__(
        self,
        spec: WorkerSpec | LazySpec,
        suite: str,
        task: str,
        size: int,
        shown: Shown = EVERYTHING,
    ) -> None:
        self._spec = spec
        self._suite = suite
        self._task = task
        self._size = size
        self._shown = shown
        self._pid = os.getpid()
        self.remotes: list[RemoteEnv] = []
        self.opened: Opened | None = None
        self.spaces: Spaces | None = None
        self.buffers: Buffers | None = None
        self.batches: Batches | None = None
        self._lockstep: LockstepSteps | None = None
        self._plain = True  # whether the last quick steps were answered by empty frames

    def open_first(self) -> None:
        """Make the first env, for its spaces and metadata."""
        if not self.remotes:
            self._start_envs(1)

    def open_all(self) -> Buffers:
        """Make all envs, and the memory that the host shares with them."""
        if self.buffers is None:
            self._start_envs(self._size - len(self.remotes))
            self.buffers = self._share()
            self.batches = Batches(self.buffers.observations)
        return self.buffers

    def ask_all(self, ask: Callable[[int, RemoteEnv], None], reply_type: type[R]) -> list[R]:
        """Ask all envs and wait; if one fails, end all workers and raise its error."""
        return self.ask(range(len(self.remotes)), ask, reply_type)

    def ask(
        self, rows: Iterable[int], ask: Callable[[int, RemoteEnv], None], reply_type: type[R]
    ) -> list[R]:
        """Ask some envs and wait; if one fails, end all workers and raise its error."""
        replies = self._exchange(rows, ask)
        self._raise_first(replies)
        return replies  # type: ignore[return-value]  # `messages.check` made sure of it

    def query(
        self, ask: Callable[[int, RemoteEnv], None], reply_type: type[R], rows: Iterable[int]
    ) -> list[R]:
        """Ask envs something that may fail; raise the first error, but keep the workers."""
        replies = self._exchange(rows, ask)
        if any(remote.worker.ended for remote in self.remotes):
            self._raise_first(replies)
        for reply in replies:
            if isinstance(reply, WorkerError):
                raise reply
        return [reply for reply in replies if isinstance(reply, reply_type)]

    def quick_step(self, on_answer: Callable[[int], None] | None) -> Array | list[Stepped]:
        """Step every env with its action in shared memory.

        Args:
            on_answer: Called for each row whose observation is complete, while others compute.

        Returns:
            The results, as `Buffers.step_results`; or answers, if one of them has info or texts.
        """
        try:
            if self._plain and (lockstep := self._lockstep_steps()).step(on_answer):
                return self._step_results(lockstep.numbers())
            self._ask_for_quick_steps()
        except BaseException:  # e.g. Ctrl-C: which envs have answered is unknown
            self._stop_lockstep()
            self.close()
            raise
        replies = self._await([remote.worker for remote in self.remotes], on_answer)
        self._raise_first(replies)
        numbers = [reply.id if type(reply) is QuickStepped else _IN_ANSWER for reply in replies]
        results = self._step_results(np.array(numbers))
        self._plain = _IN_ANSWER not in numbers
        return results if self._plain else as_answers(results, replies)

    def texts(self, row: int, reply: WasReset | Stepped) -> dict[str, str]:
        """Return the texts of an env's observation; end all workers if they are not valid."""
        try:
            return self.remotes[row].texts(reply)
        except WorkerError:
            self.close()
            raise

    def close(self) -> None:
        """End all workers, after giving them time to close their envs."""
        if os.getpid() != self._pid:  # a fork of the host must not end the host's workers
            return
        self.buffers = self.batches = self._lockstep = None
        workers = [remote.worker for remote in self.remotes]
        if workers:
            close_workers(workers, limit=self._limits().close)
        self.remotes = []

    def _exchange(
        self, rows: Iterable[int], ask: Callable[[int, RemoteEnv], None]
    ) -> list[Reply | WorkerError]:
        """Ask envs and wait for all answers, also if asking one of them fails."""
        self._stop_lockstep()
        asked: list[Worker | InlineWorker] = []
        try:
            for row in rows:
                ask(row, self.remotes[row])
                asked.append(self.remotes[row].worker)
        except Exception:  # the caller passed a value that cannot be sent
            for worker in asked:
                worker.wait()
            raise
        return self._await(asked)

    def _await(
        self,
        asked: Sequence[Worker | InlineWorker],
        on_answer: Callable[[int], None] | None = None,
    ) -> list[Reply | WorkerError]:
        """Wait for the answers: one after the other while they come soon, else for all at once."""
        try:
            for number, worker in enumerate(asked):
                if worker.busy and isinstance(worker, Worker) and not worker.wait_briefly():
                    _wait_for_all(asked)
                if on_answer is not None:
                    on_answer(number)
            return [worker.take() for worker in asked]
        except BaseException:  # e.g. Ctrl-C: which envs have answered is unknown
            self.close()
            raise

    def _lockstep_steps(self) -> LockstepSteps:
        if self._lockstep is None:
            self._lockstep = LockstepSteps(self._processes())
        return self._lockstep

    def _ask_for_quick_steps(self) -> None:
        """Ask each env for a step; after lockstep steps, only those that were not asked yet."""
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

    def _step_results(self, numbers: Array) -> Array:
        """Return the results of the quick steps.

        Args:
            numbers: The request's number that each result must have, or `_IN_ANSWER`.
        """
        assert self.buffers is not None
        results = self.buffers.step_results()
        wrong = (results["number"] != numbers) & (numbers != _IN_ANSWER)
        if wrong.any():
            raise self._false_answer(int(wrong.argmax()))
        return results

    def _false_answer(self, row: int) -> WorkerError:
        """End all workers, because one answered a step that it never took; return the error."""
        self._stop_lockstep()
        reason = BrokenChannel("it answered a step that it never took")
        error = self.remotes[row].worker.broken(reason)
        self.close()
        return error

    def _limits(self) -> Limits:
        return self._spec.limits

    def _start_envs(self, count: int) -> None:
        """Start workers, load the benchmark in them and make their envs."""
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
            needs = self._shown.needs
            opened = self.ask(new, lambda _, r: r.open(self._suite, self._task, needs), Opened)
            converted: list[Any] = [None] * count
            if self._shown.converted:
                converted = self.ask(new, lambda _, r: r.convert(None), Converted)
        for row, *answers in zip(new, opened, converted, strict=True):
            self._check_spaces(row, *answers)

    def _check_spaces(self, row: int, answer: Opened, converted: Converted | None) -> None:
        """Make sure that an env has the same spaces as the first one."""
        try:
            spaces = self.remotes[row].spaces(answer)
            if converted is not None:
                spaces = self.remotes[row].converted_space(converted), spaces[1]
            if self.spaces is None:
                self.opened, self.spaces = answer, spaces
            elif spaces != self.spaces:
                doing = f"making the env of task {self._task!r} in env {row}"
                problem = f"its spaces differ from those of env 0: {spaces}, {self.spaces}."
                raise WorkerError(doing, problem)
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

    def _raise_first(self, replies: Sequence[Reply | WorkerError]) -> None:
        errors = [reply for reply in replies if isinstance(reply, WorkerError)]
        if not errors:
            return
        self.close()
        for other in errors[1:]:
            errors[0].add_note(f"Also: {other}")
        raise errors[0]


def as_answers(results: Array, replies: Sequence[Any] = ()) -> list[Stepped]:
    """Return an answer per env; those that came as empty frames are made from the results."""
    answers = list(replies) or [None] * len(results)
    for row, reply in enumerate(answers):
        if not isinstance(reply, Stepped):
            number, reward, terminated, truncated, _ = results[row].item()
            flags = bool(terminated), bool(truncated)
            answers[row] = Stepped(number, [reward], *flags, [], {}, {})
    return answers


def as_attribute_error(error: WorkerError) -> Exception:
    """Return the built-in exception for an attribute or method that an env lacks, else `error`."""
    raised = getattr(error, "kind", "")
    for expected in (AttributeError, NotImplementedError):
        if raised == expected.__name__:
            return expected(str(error))
    return error


def _wait_for_all(workers: Sequence[Worker | InlineWorker]) -> None:
    """Wait for all workers at once, so that none blocks on its output while another one is slow."""
    busy = [worker for worker in workers if worker.busy and isinstance(worker, Worker)]
    poller = WorkerPoller()
    try:
        for worker in busy:
            poller.add(worker)
        while any(worker.busy for worker in busy):
            poller.wait()
    finally:
        poller.dispose()
