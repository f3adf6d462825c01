"""The slots of an engine and their workers: starting, replacing and stopping them.

Starting a worker takes a quarter of a second and starting a simulator takes seconds. So workers are
started one by one while the ready ones already work, and a slot without work gives up its worker
without waiting for it to end.
"""

from collections import deque
from collections.abc import Iterator

from envhub.evaluation.job import Job
from envhub.evaluation.slot import KnownSpaces, Slot
from envhub.host.inline import InlineWorker
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import WorkerPoller, close_workers
from envhub.host.worker import Worker


class SlotPool:
    """All slots, some of which have a worker."""

    def __init__(self, job: Job, poller: WorkerPoller, first: RemoteEnv | None) -> None:
        """Make the slots; no worker is started.

        Args:
            job: The episodes and the number of workers.
            poller: Watches the workers.
            first: A worker that has loaded the benchmark already.
        """
        count = job.workers if job.supply else min(job.workers, len(job.episodes))
        known, inline = KnownSpaces(), job.workers == 0
        self.slots = [
            Slot(
                index,
                job.spec,
                logs=job.logs,
                inline=inline,
                known=known,
                first_leaves=job.first_leaves,
            )
            for index in range(max(1, count))
        ]
        self._limits = job.limits
        self._poller = poller
        self._first = first
        self._idle = deque(self.slots)
        self._share = job.share
        self._placed: set[Slot] = set()
        self._refused = False
        self._ahead: Slot | None = None
        """The slot whose worker loads the benchmark before there is a place for it."""
        if job.share is not None:
            poller.watch(job.share.fileno())
        self._leaving: list[Worker | InlineWorker] = []

    @property
    def starting(self) -> bool:
        """Whether slots wait for their first worker, which can be started now."""
        return bool(self._idle) and not self._refused

    @property
    def busy(self) -> bool:
        """Whether any slot has a worker or waits for its first one."""
        return bool(self._idle) or any(slot.remote is not None for slot in self.slots)

    def take_idle(self) -> Slot | None:
        """Take a slot that waits for its first worker, if there is a place for that worker."""
        while self._idle and self._idle[0].remote is not None and self._idle[0] != self._ahead:
            self._idle.popleft()
        if not self._idle or not self.place(self._idle[0]):
            return None
        return self._idle.popleft()

    def take_ahead(self) -> Slot | None:
        """Return a slot whose worker may load while it waits for a place: one at a time.

        So a place that another engine gives back is not idle while a worker starts.
        """
        if not self._refused or not self._idle or self._ahead or self._first:
            return None
        self._ahead = self._idle[0]
        return self._ahead

    def has_place(self, slot: Slot) -> bool:
        """Whether a slot may play."""
        return self._share is None or slot in self._placed

    def forget_idle(self) -> None:
        """Let no slot wait for a worker: there is no work for it."""
        self._idle.clear()
        if self._ahead is not None and self._ahead not in self._placed:
            self.stop(self._ahead)
        self._ahead = None
        self._refused = False
        if self._share is not None:
            self._share.withdraw()

    def place(self, slot: Slot) -> bool:
        """Take a place for a slot's worker; returns whether there is one."""
        if self._share is None or slot in self._placed:
            return True
        self._refused = not self._share.take()
        if not self._refused:
            self._placed.add(slot)
            self._ahead = None if slot is self._ahead else self._ahead
        return not self._refused

    def wait_for_place(self, slot: Slot) -> None:
        """Start the slot's worker as soon as there is a place."""
        if slot not in self._idle:
            self._idle.append(slot)

    def unused(self, episodes: int) -> Iterator[Slot]:
        """Yield slots without a worker while more episodes wait than there are workers."""
        for slot in self.slots:
            active = sum(s.remote is not None for s in self.slots)
            if slot.remote is None and episodes > active:
                yield slot

    def answered(self) -> list[Slot]:
        """Return the slots whose worker has answered."""
        return [s for s in self.slots if s.remote and s.remote.worker.reply is not None]

    def start(self, slot: Slot) -> bool:
        """Give a slot a worker; returns whether it has loaded the benchmark already."""
        first, self._first = self._first, None
        remote = slot.start(first)
        if isinstance(remote.worker, Worker):
            self._poller.add(remote.worker)
        return first is not None

    def kill(self, slot: Slot) -> None:
        """End a worker that failed."""
        if slot.remote is not None:
            worker = slot.remote.worker
            if isinstance(worker, Worker):
                self._poller.remove(worker)
            worker.end()
        slot.remote, slot.open_task = None, None

    def stop(self, slot: Slot) -> None:
        """Let a worker close its env and end while others work; `close` waits for it."""
        remote, slot.remote = slot.remote, None
        self._ahead = None if slot is self._ahead else self._ahead
        if remote is not None:
            self._leaving.append(remote.worker)
            if isinstance(remote.worker, Worker):
                self._poller.remove(remote.worker)
                remote.worker.channel.close()
        slot.close()
        self._leave_place(slot)

    def close(self) -> None:
        """End all workers, after giving them time to close their envs."""
        remotes = [self._first, *(slot.remote for slot in self.slots)]
        workers = [remote.worker for remote in remotes if remote is not None]
        workers += self._leaving
        for worker in workers:
            if isinstance(worker, Worker):
                self._poller.remove(worker)
        close_workers(workers, limit=self._limits.close)
        self._first, self._leaving = None, []  # their views keep the shared memory mapped
        for slot in self.slots:
            slot.remote = None
            slot.close()
            self._leave_place(slot)
        if self._share is not None:
            self._poller.unwatch(self._share.fileno())
            self._share.dispose()
            self._share = None

    def _leave_place(self, slot: Slot) -> None:
        if self._share is not None and slot in self._placed:
            self._placed.remove(slot)
            self._share.give()
