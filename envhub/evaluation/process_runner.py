"""The runner of a policy in a process of its own, which maps the memory of the slots."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from envhub.declarations import Benchmark
from envhub.errors import ContractError, WorkerError
from envhub.evaluation.events import (
    ActionsReady,
    Event,
    PolicyFailure,
    PolicyReady,
    PolicyRunner,
)
from envhub.evaluation.pacing import running_average
from envhub.evaluation.slot import Slot, batch_of, spaces_of
from envhub.host.remote import RemotePolicy
from envhub.host.waiting import WorkerPoller
from envhub.host.worker import Worker
from envhub.types import Batch, PolicyFacts, PolicySource, PolicySpec
from envhub.wire.messages import Acted, Done, PolicyLoaded
from envhub.wire.spaces import Spaces

KnownFacts = list[tuple[Spaces, PolicyFacts]]
"""What the policy declares, by the spaces that it was made for."""


class ProcessRunner(PolicyRunner):
    """Calls a policy in a process of its own, which maps the memory of the slots."""

    def __init__(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        spec: PolicySpec,
        poller: WorkerPoller,
        known: KnownFacts,
        *,
        batch: Batch,
        name: str,
        log: Path | None,
    ) -> None:
        """Start the process.

        Args:
            policy: The place of its factory.
            benchmark: The benchmark that it is evaluated on.
            spec: How its process is started.
            poller: Watches the process.
            known: Shared by all processes of the policy, which must declare the same.
            batch: The rows of the policy's calls if it declares none.
            name: The name of the process in errors.
            log: A file for the beginning of its output.
        """
        super().__init__()
        self._batch: Batch = batch
        self._spec = spec
        self._policy = policy
        self._benchmark = benchmark
        self._poller = poller
        self._name = name
        self._log = log
        self._finished: list[int] = []
        self._known: KnownFacts = known
        self._loaded: dict[int, int] = {}
        self._loading: Spaces | None = None
        self._mapped: dict[int, int] = {}
        self._acting: tuple[Slot, ...] = ()
        self._since = 0.0
        self._start()

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """Return what the policy for this slot's spaces declares, if that is known."""
        index = self._index(slot)
        return None if index is None else self._known[index][1]

    def pump(self) -> None:
        """Send the next request to the policy's process, if it is free."""
        if self.remote.worker.busy or self.remote.worker.reply is not None:
            return
        batch = batch_of(self.waiting, self._index, self._most)
        # Their facts may be known from another process, or from one that was replaced.
        users = (*self.awaiting_policy, *batch[:1])
        new = next((slot for slot in users if self._index(slot) not in self._loaded), None)
        if new is not None:
            self._loading = spaces_of(new)
            self.remote.load(self._policy, self._benchmark, self._loading, self._batch)
            return
        unmapped = next((s for s in batch if self._mapped.get(s.index) != s.generation), None)
        if unmapped is not None:
            self._mapped[unmapped.index] = unmapped.generation
            self.remote.map_slot(
                unmapped.index, self._policy_of(unmapped), unmapped.memory, unmapped.converted
            )
        elif batch:
            self._act(batch)

    def event(self) -> Event | None:
        """Return the result of the last request, if it is answered."""
        if self.remote.worker.reply is None:
            return None
        slots, self._acting = self._acting, ()
        match self.remote.worker.take():
            case PolicyLoaded(facts=facts, policy=policy):
                return self._ready(facts, policy)
            case Acted() as acted:
                seconds = time.monotonic() - self._since
                self.seconds = running_average(self.seconds, seconds)
                return self._checked(slots, acted, seconds)
            case WorkerError() as error:
                error.where = "policy"
                lost = self.remote.worker.ended
                if lost:
                    self._start()
                return PolicyFailure(slots, error, lost)
            case Done():
                return None
            case reply:
                raise AssertionError(reply)

    def finished(self, number: int) -> None:
        """Note that an episode has ended; the next request tells the policy."""
        self._finished.append(number)

    def leave(self) -> Worker:
        """Stop watching the process, and return it: `close_runners` ends all at once."""
        self._poller.remove(self.remote.worker)
        return self.remote.worker

    def _start(self) -> None:
        self.remote = RemotePolicy(self._spec, name=self._name, log=self._log)
        self._poller.add(self.remote.worker)
        self._loaded, self._mapped, self._loading, self._acting = {}, {}, None, ()

    def _ready(self, facts: PolicyFacts, policy: int) -> Event:
        assert self._loading is not None
        spaces = [known for known, _ in self._known]
        if self._loading not in spaces:
            spaces.append(self._loading)
            self._known.append((self._loading, facts))
        index = spaces.index(self._loading)
        if self._known[index][1] != facts:
            return self._broken((), "the policy declares something else than before")
        self._loaded[index] = policy
        slots, self.awaiting_policy = tuple(self.awaiting_policy), []
        return PolicyReady(slots)

    def _act(self, batch: tuple[Slot, ...]) -> None:
        begin = tuple(slot.attempt.info for slot in batch if not slot.attempt.began)
        for slot in batch:
            slot.attempt.began = True
        finished, self._finished = tuple(self._finished), []
        self._acting, self._since = batch, time.monotonic()
        rows = tuple(slot.row() for slot in batch)
        self.remote.act(self._policy_of(batch[0]), rows, begin, finished)

    def _checked(self, slots: tuple[Slot, ...], acted: Acted, seconds: float) -> Event:
        """Return the actions, or replace the process if it sent something else."""
        assert slots[0].spaces is not None
        space, actions = slots[0].spaces[1], acted.actions
        same_length = isinstance(actions, np.ndarray) and len(actions.shape) > 0
        if (same_length or isinstance(actions, list)) and len(actions) == len(slots):
            checked = actions[:1] if same_length else actions
            if all(_is_chunk(chunk, space) for chunk in checked):
                acting = acted.seconds if 0.0 <= acted.seconds <= seconds else seconds
                calls = self._size.count(self.facts(slots[0]), len(slots), acting)
                taken = acted.outliers, acted.remarks, acted.about
                return ActionsReady(slots, actions, seconds, calls, acting, *taken)
        return self._broken(slots, "it sent something else than actions")

    def _broken(self, slots: tuple[Slot, ...], reason: str) -> PolicyFailure:
        error = self.remote.worker.broken(ContractError(reason))
        error.where = "policy"
        self._start()
        return PolicyFailure(slots, error, lost=True)

    def _policy_of(self, slot: Slot) -> int:
        index = self._index(slot)
        assert index is not None
        return self._loaded[index]


def _is_chunk(chunk: Any, space: Space[Any]) -> bool:
    """Whether something that a process sent is a chunk of actions."""
    return (
        isinstance(chunk, np.ndarray)
        and chunk.dtype == space.dtype
        and len(chunk.shape) > 0
        and len(chunk) > 0
        and chunk.shape[1:] == (space.shape or ())
    )
