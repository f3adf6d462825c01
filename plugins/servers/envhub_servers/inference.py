"""Calls of the served policy: in one thread, off the event loop, for several requests at once."""

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from envhub.errors import EnvHubError
from envhub.types import MAX_BATCH
from envhub.wire.messages import BatchRow, EpisodeInfo
from envhub.wire.values import Array
from envhub_servers.hosting import HostedPolicy, Slot

_WINDOW = 0.002
"""Seconds that a call waits at least for connections that asked a moment ago."""
_SHARE = 0.25
"""Of the last call's duration, that it waits for them at most."""
_RECENT = 1.0
"""Seconds after which a connection is not waited for."""


@dataclass(slots=True)
class Ask:
    """A request for actions."""

    slot: Slot
    row: BatchRow
    begin: EpisodeInfo | None
    """The episode, if it begins."""
    alone: bool = False
    """Whether no other may be in its call, since a call with it has failed."""
    answer: "Future[tuple[Array, float]]" = field(default_factory=Future)
    """The actions, and the seconds that the call took."""


class Inference:
    """The thread that calls the policy."""

    def __init__(self, policy: HostedPolicy) -> None:
        self._policy = policy
        self._asks: queue.Queue[Ask | None] = queue.Queue()
        self._finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._kept: list[Ask] = []
        self._recent: dict[int, float] = {}
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def ask(self, ask: Ask) -> "Future[tuple[Array, float]]":
        """Request actions."""
        self._asks.put(ask)
        return ask.answer

    def finish(self, number: int) -> None:
        """Note that an episode has ended."""
        self._finished.put(number)

    def forget(self, slot: Slot) -> None:
        """Do not wait for a connection that is closed."""
        self._recent.pop(slot.index, None)

    def close(self) -> None:
        """End the thread after the call under way."""
        self._asks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            batch = [ask for ask in batch if ask.answer.set_running_or_notify_cancel()]
            if batch:
                self._act(batch)

    def _next(self) -> list[Ask] | None:
        """Wait for a request, and a little for others that fit into the same call."""
        first = self._kept.pop(0) if self._kept else self._asks.get()
        if first is None:
            return None
        if first.alone:
            return [first]
        most = self._policy.facts.batch
        size = MAX_BATCH if most == "any" else most
        batch, end = [first], time.monotonic() + max(_WINDOW, _SHARE * self._seconds)
        while len(batch) < size:
            if self._kept:
                return [*batch, *self._take_kept(size - len(batch))]
            expected = self._expected()
            left = end - time.monotonic() if len(batch) < expected else 0.0
            try:
                ask = self._asks.get(timeout=left) if left > 0 else self._asks.get_nowait()
            except queue.Empty:
                break
            if ask is None:
                self._asks.put(None)
                break
            if ask.alone:
                self._kept.append(ask)
                break
            batch.append(ask)
        return batch

    def _take_kept(self, count: int) -> list[Ask]:
        taken = [ask for ask in self._kept if not ask.alone][:count]
        self._kept = [ask for ask in self._kept if ask not in taken]
        return taken

    def _expected(self) -> int:
        """Return how many connections have asked a moment ago."""
        since = time.monotonic() - max(_RECENT, 2 * self._seconds)
        return sum(asked >= since for asked in list(self._recent.values()))

    def _act(self, batch: Sequence[Ask]) -> None:
        now = time.monotonic()
        for ask in batch:
            self._recent[ask.slot.index] = now
        finished: list[int] = []
        while not self._finished.empty():
            finished.append(self._finished.get())
        begin = tuple(ask.begin for ask in batch if ask.begin is not None)
        try:
            acted = self._policy.act(
                tuple((ask.slot, ask.row) for ask in batch), begin, tuple(finished)
            )
        except Exception as exc:
            for ask in batch:
                ask.answer.set_exception(exc)
            if not isinstance(exc, EnvHubError):
                raise
            return
        self._seconds = acted.seconds
        for ask, actions in zip(batch, acted.actions, strict=True):
            ask.answer.set_result((actions, acted.seconds))
