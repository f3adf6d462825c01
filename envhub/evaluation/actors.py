"""Whoever acts for the slots: a policy in its own process, or one in this process.

An actor is told which slots want to know what it reads, and which wait for actions; `pump` lets it
do what it can. What comes of it is handed to the engine as events.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import ContractError, EnvHubError, WorkerError, WorkerRaised
from envhub.evaluation.job import Job
from envhub.evaluation.patience import Hopeless
from envhub.evaluation.slot import Slot
from envhub.policies.contract import Context, PolicyFacts
from envhub.policies.runner import Runner
from envhub.types import HERE, Benchmark, FileSource, Interpreter, Limits, PolicySource
from envhub.worker.acting import Sight, context_of, make_runner, wrap
from envhub.worker.board import Switchboard, close_workers
from envhub.worker.protocol import Acted, Done, PolicyLoaded
from envhub.worker.remote_policy import RemotePolicy
from envhub.worker.spaces import Spaces

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Learned:
    """What a policy declares is known now."""


@dataclass(frozen=True, slots=True)
class Acts:
    """Actions for slots, a chunk for each."""

    slots: tuple[Slot, ...]
    actions: Array


@dataclass(frozen=True, slots=True)
class Failure:
    """The policy failed; without slots, while it was made."""

    slots: tuple[Slot, ...]
    error: WorkerError
    lost: bool
    """Whether its process is gone, and with it the state of all episodes."""


Event = Learned | Acts | Failure


class ProcessActor:
    """A policy in a process of its own, which maps the memory of the slots."""

    def __init__(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        source: FileSource | None,
        limits: Limits,
        board: Switchboard,
        log: Path | None,
        interpreter: Interpreter = HERE,
    ) -> None:
        self._interpreter = interpreter
        self._policy = policy
        self._benchmark = benchmark
        self._source = source
        self._limits = limits
        self._board = board
        self._log = log
        self._finished: list[int] = []
        self._known: list[tuple[Spaces, PolicyFacts]] = []
        self._loaded: dict[int, int] = {}
        self._loading: Spaces | None = None
        self._mapped: dict[int, int] = {}
        self._acting: tuple[Slot, ...] = ()
        self._since = 0.0
        self.seconds = 0.0
        """What a call takes, on average."""
        self._hire()

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """What the policy for this slot's spaces declares, if that is known."""
        index = self._index(slot)
        return None if index is None else self._known[index][1]

    def pump(self, wanting: Sequence[Slot], waiting: Sequence[Slot]) -> None:
        """Ask the policy's process the next thing, if it is free."""
        if self.remote.worker.busy or self.remote.worker.outcome is not None:
            return
        new = next((slot for slot in wanting if self.facts(slot) is None), None)
        batch = _batch(waiting, self._index)
        if new is None and batch and self._index(batch[0]) not in self._loaded:
            new = batch[0]  # this process is another than the one that the facts are from
        if new is not None:
            self._loading = _spaces(new)
            self.remote.load(self._policy, self._benchmark, self._loading, self._source)
            return
        unmapped = next((s for s in batch if self._mapped.get(s.index) != s.generation), None)
        if unmapped is not None:
            self._mapped[unmapped.index] = unmapped.generation
            self.remote.map_slot(unmapped.index, self._of(unmapped), unmapped.memory)
        elif batch:
            self._act(batch)

    def event(self) -> Event | None:
        """What came of the last request, if an answer is there."""
        if self.remote.worker.outcome is None:
            return None
        slots, self._acting = self._acting, ()
        match self.remote.worker.take():
            case PolicyLoaded(facts=facts, policy=policy):
                return self._learned(facts, policy)
            case Acted(actions=actions):
                self.seconds = _average(self.seconds, time.monotonic() - self._since)
                return self._checked(slots, actions)
            case WorkerError() as error:
                error.where = "policy"
                lost = self.remote.worker.ended
                if lost:
                    self._hire()
                return Failure(slots, error, lost)
            case Done():
                return None
            case reply:
                raise AssertionError(reply)

    def finished(self, number: int) -> None:
        """An episode has ended."""
        self._finished.append(number)

    def close(self) -> None:
        """End the process."""
        self._board.remove(self.remote.worker)
        close_workers([self.remote.worker], limit=self._limits.close)

    def _hire(self) -> None:
        self.remote = RemotePolicy(self._limits, log=self._log, interpreter=self._interpreter)
        self._board.add(self.remote.worker)
        self._loaded, self._mapped, self._loading, self._acting = {}, {}, None, ()

    def _learned(self, facts: PolicyFacts, policy: int) -> Event:
        assert self._loading is not None
        spaces = [known for known, _ in self._known]
        if self._loading not in spaces:
            spaces.append(self._loading)
            self._known.append((self._loading, facts))
        index = spaces.index(self._loading)
        if self._known[index][1] != facts:
            return self._broken((), "the policy declares something else than before")
        self._loaded[index] = policy
        return Learned()

    def _act(self, batch: tuple[Slot, ...]) -> None:
        begin = tuple(slot.now().told for slot in batch if not slot.now().began)
        for slot in batch:
            slot.now().began = True
        finished, self._finished = tuple(self._finished), []
        self._acting, self._since = batch, time.monotonic()
        rows = tuple(slot.seen() for slot in batch)
        self.remote.act(self._of(batch[0]), rows, begin, finished)

    def _checked(self, slots: tuple[Slot, ...], actions: Any) -> Event:
        """The actions, if they are such; a process that sends others is not used any more."""
        assert slots[0].spaces is not None
        space = slots[0].spaces[1]
        due = (len(slots), actions.shape[1:2], space.shape) if hasattr(actions, "shape") else None
        good = isinstance(actions, np.ndarray) and actions.dtype == space.dtype
        if good and due and actions.shape == (len(slots), *due[1], *(space.shape or ())):
            return Acts(slots, actions)
        return self._broken(slots, "it sent something else than actions")

    def _broken(self, slots: tuple[Slot, ...], reason: str) -> Failure:
        error = self.remote.worker.broken(ContractError(reason))
        error.where = "policy"
        self._hire()
        return Failure(slots, error, lost=True)

    def _index(self, slot: Slot) -> int | None:
        known = enumerate(self._known)
        return next((index for index, (spaces, _) in known if spaces == slot.spaces), None)

    def _of(self, slot: Slot) -> int:
        index = self._index(slot)
        assert index is not None
        return self._loaded[index]


class InlineActor:
    """A policy in this process: an object of the caller's, or any with `--workers 0`."""

    seconds = 0.0

    def __init__(self, policy: Any, benchmark: Benchmark, source: FileSource | None) -> None:
        """Take a policy.

        Args:
            policy: A policy, or a `PolicySource` to make it from.
            benchmark: What it is to be evaluated on.
            source: The benchmark's file, if it is one.
        """
        self._policy = policy
        self._benchmark = benchmark
        self._source = source
        self._known: list[tuple[Spaces, Runner, Sight]] = []
        self._contexts: dict[int, tuple[Context, Runner]] = {}
        self._event: Event | None = None

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """What the policy for this slot's spaces declares, if it is made."""
        index = self._index(slot)
        return None if index is None else self._known[index][1].facts

    def pump(self, wanting: Sequence[Slot], waiting: Sequence[Slot]) -> None:
        """Make the policy, or let it act, now."""
        if self._event is not None:
            return
        new = next((slot for slot in wanting if self.facts(slot) is None), None)
        batch: tuple[Slot, ...] = ()
        try:
            if new is not None:
                self._make(_spaces(new))
                self._event = Learned()
                return
            batch = _batch(waiting, self._index)
            if batch:
                self._event = Acts(batch, self._act(batch))
        except (Exception, SystemExit) as exc:
            contract = isinstance(exc, EnvHubError)
            verb = "acting" if batch else "making"
            error = WorkerRaised(
                f"{verb} of the policy",
                type(exc).__name__,
                str(exc),
                contract=contract,
                where="policy",
            )
            error.__cause__ = exc
            self._event = Failure(batch, error, lost=False)

    def event(self) -> Event | None:
        """What came of the last call."""
        event, self._event = self._event, None
        return event

    def finished(self, number: int) -> None:
        """An episode has ended."""
        if number in self._contexts:
            context, runner = self._contexts.pop(number)
            runner.finish(context)

    def close(self) -> None:
        """Close the policy, if it was made here."""
        if isinstance(self._policy, PolicySource):
            for _, runner, _ in self._known:
                runner.close()

    def _make(self, spaces: Spaces) -> None:
        make = make_runner if isinstance(self._policy, PolicySource) else wrap
        runner = make(self._policy, self._benchmark, spaces, self._source)
        self._known.append((spaces, runner, Sight(spaces[0], runner.facts.needs)))

    def _act(self, batch: tuple[Slot, ...]) -> Array:
        index = self._index(batch[0])
        assert index is not None
        _, runner, sight = self._known[index]
        contexts = [self._context(runner, slot) for slot in batch]
        return runner.act(sight.batch(batch, Slot.value), contexts)

    def _context(self, runner: Runner, slot: Slot) -> Context:
        playing = slot.now()
        number = playing.episode.number
        if not playing.began:
            playing.began = True
            self._contexts[number] = context_of(playing.told), runner
            runner.start(self._contexts[number][0])
        context, _ = self._contexts[number]
        context.step = playing.steps
        return context

    def _index(self, slot: Slot) -> int | None:
        for index, (spaces, _, _) in enumerate(self._known):
            if spaces == slot.spaces:
                return index
        return None


def _batch(waiting: Sequence[Slot], index: Any) -> tuple[Slot, ...]:
    """The slots of one call: all with the same policy, or one whose episode must be alone."""
    for slot in waiting:
        if slot.now().alone:
            return (slot,)
    policy = index(waiting[0]) if waiting else None
    return tuple([slot for slot in waiting if index(slot) == policy])


def _spaces(slot: Slot) -> Spaces:
    assert slot.spaces is not None
    return slot.spaces


def _average(before: float, now: float) -> float:
    """A running average that follows changes within a few calls."""
    return now if before == 0.0 else 0.8 * before + 0.2 * now


def make_actor(job: Job, board: Switchboard) -> "ProcessActor | InlineActor | None":
    """Whoever acts at first; None if that is a policy beside each env."""
    if job.workers == 0 or not isinstance(job.policy, PolicySource):
        return InlineActor(job.policy, job.benchmark, job.loadable)
    return None if job.beside else make_process_actor(job, board)


def make_process_actor(job: Job, board: Switchboard) -> ProcessActor:
    """The policy in a process of its own.

    Raises:
        Hopeless: Its code may not leave its sandbox.
    """
    assert isinstance(job.policy, PolicySource)
    if job.beside and job.confinement is not None:
        raise Hopeless(
            "The policy comes with a benchmark that is kept in a sandbox, and wants a process "
            "of its own, which is not: its placement must be 'worker'."
        )
    log = job.logs / "policy.log" if job.logs else None
    # A policy that comes with the benchmark may need what the benchmark's runtime has.
    interpreter = job.interpreter if job.beside else HERE
    return ProcessActor(
        job.policy, job.benchmark, job.loadable, job.limits, board, log, interpreter
    )
