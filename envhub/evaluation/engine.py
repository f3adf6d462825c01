"""The engine: slots that play episodes, a policy that acts for those that wait.

Nobody waits for a slower one: a slot that ends an episode takes the next at once, and the policy
sees whatever slots wait. What a slot does next follows from the answer that its worker gave.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from envhub.errors import ContractError, WorkerError, WorkerRaised
from envhub.evaluation.actors import (
    Acts,
    Event,
    Failure,
    InlineActor,
    Learned,
    ProcessActor,
    make_actor,
    make_process_actor,
)
from envhub.evaluation.job import Job, Progress
from envhub.evaluation.patience import Hopeless, Patience
from envhub.evaluation.playing import Playing
from envhub.evaluation.schedule import Schedule
from envhub.evaluation.slot import KnownSpaces, Slot
from envhub.policies.contract import PolicyFacts
from envhub.records import EpisodeRecord
from envhub.worker.board import Switchboard, close_workers
from envhub.worker.host import Worker
from envhub.worker.inline import InlineWorker
from envhub.worker.protocol import (
    Done,
    Loaded,
    Opened,
    Played,
    PolicyLoaded,
    Reply,
    Stepped,
    Ticked,
    WasReset,
)
from envhub.worker.remote import RemoteEnv
from envhub.worker.spaces import Spaces

Array = np.ndarray[Any, Any]
OnRecord = Callable[[EpisodeRecord, Array | None], None]


class Engine:
    """Runs the episodes of a job, once."""

    def __init__(
        self,
        job: Job,
        on_record: OnRecord,
        *,
        first: RemoteEnv | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            job: What to do.
            on_record: Called for every episode that has ended, with its actions.
            first: A worker that has loaded the benchmark already.
            on_tick: Called a few times a second.
        """
        self.progress = Progress()
        self.stopping = False
        """Set to finish the episodes under way and start no others."""
        self.facts: PolicyFacts | None = None
        self._job = job
        self._on_record = on_record
        self._on_tick = on_tick
        self._first = first
        self._board = Switchboard()
        self._schedule = Schedule(job.episodes, job.workers)
        self._attempts: dict[int, int] = {}
        self._alone: set[int] = set()
        self._patience = Patience()
        self._turn = 0.0
        self._actor: ProcessActor | InlineActor | None = make_actor(job, self._board)
        count = max(1, min(job.workers, len(job.episodes)))
        known = KnownSpaces()
        self._slots = [
            Slot(
                index,
                job.limits,
                logs=job.logs,
                inline=job.workers == 0,
                confinement=job.confinement,
                interpreter=job.interpreter,
                known=known,
            )
            for index in range(count)
        ]
        self._idle = deque(self._slots)
        self._waiting: list[Slot] = []
        self._wanting: list[Slot] = []
        self._since: dict[int, float] = {}
        self._leaving: list[Worker | InlineWorker] = []

    def run(self) -> None:
        """Run until every episode has a record, or until `stopping` has taken effect.

        Raises:
            Hopeless: Nothing can be evaluated.
        """
        try:
            while self._busy():
                self._hire_another()
                self._pump()
                self._serve()
                self._on_tick()
        finally:
            self._close()

    def _busy(self) -> bool:
        return bool(self._idle) or any(slot.remote is not None for slot in self._slots)

    def _hire_another(self) -> None:
        """Start one more worker if there is work for it; others go on meanwhile."""
        while self._idle:
            slot = self._idle.popleft()
            if slot.remote is None and self._schedule.left and not self.stopping:
                self._hire(slot)
                return

    def _serve(self) -> None:
        """Handle every answer that is there; wait for one if there is none."""
        event = self._actor.event() if self._actor else None
        if event is not None:
            self._react(event)
        elif not self._answers():
            self._board.wait(0.0 if self._idle else self._time())
        for slot in self._answers():
            if slot.remote is not None:
                self._handle(slot, slot.remote.worker.take())

    def _time(self) -> float:
        """Seconds that nothing has to be looked after."""
        return max(self._turn, 0.001) if self._holds_back() else 0.25

    def _answers(self) -> list[Slot]:
        return [s for s in self._slots if s.remote and s.remote.worker.outcome is not None]

    def _handle(self, slot: Slot, outcome: Reply | WorkerError) -> None:
        if isinstance(outcome, WorkerError):
            self._failed(slot, outcome)
            return
        try:
            self._go_on(slot, outcome)
        except Hopeless:
            raise
        except ContractError as error:
            self._failed(slot, error)

    def _go_on(self, slot: Slot, reply: Reply) -> None:
        match reply:
            case Loaded():
                self._on_loaded(slot, reply)
            case _ if slot.abandoned:
                slot.abandoned = False
                self._next(slot)
            case Opened():
                self._on_opened(slot, reply)
            case Done():
                self._prepare(slot)
            case PolicyLoaded():
                self._on_policy(slot, reply)
            case WasReset():
                slot.note(reply, slot.needs)
                self._wait_for_policy(slot)
            case Stepped() | Ticked():
                self._on_stepped(slot, reply)
            case Played():
                self._on_played(slot, reply)
            case _:
                raise AssertionError(reply)

    # What a slot does next

    def _hire(self, slot: Slot) -> None:
        first, self._first = self._first, None
        remote = slot.start(first)
        if isinstance(remote.worker, Worker):
            self._board.add(remote.worker)
        if first is not None:
            self._next(slot)
            return
        self._tell(slot, "starting")
        job = self._job
        remote.load(job.source, job.env_args, job.plan.max_steps)

    def _on_loaded(self, slot: Slot, loaded: Loaded) -> None:
        if loaded.benchmark != self._job.benchmark:
            raise ContractError("The benchmark's code declares something else than before.")
        self._patience.started("worker")
        self._next(slot)

    def _next(self, slot: Slot) -> None:
        """Take the next episode, or retire."""
        episode = None if self.stopping else self._schedule.take(slot.task)
        if episode is None:
            self._retire(slot)
            return
        slot.task = episode.task
        attempt = self._attempts.get(episode.number, 0) + 1
        slot.playing = Playing(episode, self._job.plan.tasks[episode.task], attempt)
        slot.playing.alone = episode.number in self._alone
        reusable = self._job.benchmark.reuse == "reset" and slot.open_task == episode.task
        if reusable:
            self._begin(slot)
            return
        self._tell(slot, f"opening {episode.task}")
        self.progress.opened += 1
        slot.open_task = None
        slot.live().open(episode.suite, episode.task)

    def _on_opened(self, slot: Slot, opened: Opened) -> None:
        slot.open_task = slot.task
        if slot.take_spaces(opened):
            slot.share_memory()
        else:
            slot.attach()

    def _prepare(self, slot: Slot) -> None:
        """The env is made; what the policy reads must be known before the first reset."""
        facts = self._actor.facts(slot) if self._actor else None
        if facts is not None:
            slot.needs = facts.needs
            self._take_facts(facts)
        if self._actor is None and slot.policy_for is slot.spaces:
            self._begin(slot)  # it plays other tasks too, as in a process of its own
        elif self._actor is None:
            slot.making_policy = True
            job = self._job
            slot.live().load_policy(job.policy, job.benchmark, _spaces(slot), job.file)
        elif facts is None:
            self._wanting.append(slot)
        else:
            self._begin(slot)

    def _on_policy(self, slot: Slot, loaded: PolicyLoaded) -> None:
        """A policy was made beside the env; one that wants a process of its own gets it."""
        slot.making_policy, slot.policy_for = False, slot.spaces
        self._patience.started("policy")
        self._take_facts(loaded.facts)
        if self._actor is None:
            self._begin(slot)
        else:
            self._prepare(slot)

    def _take_facts(self, facts: PolicyFacts) -> None:
        """Let the policy be where it wants to be, once that is known."""
        if self.facts is None:
            self.facts = facts
            if facts.placement == "process":
                self._actor = self._actor or make_process_actor(self._job, self._board)
            elif isinstance(self._actor, ProcessActor) and self._job.shared:
                # Neither a sandbox nor a runtime of its own has room for the user's policy: that
                # stays where it is.
                self._actor.close()
                self._actor = None
        elif self.facts.placement != facts.placement:
            raise Hopeless("The policy's placement is not the same for all tasks.")

    def _begin(self, slot: Slot) -> None:
        playing = slot.now()
        self._tell(slot, f"{playing.episode.task} #{playing.episode.index}")
        if self._actor is None:
            self._play(slot, fresh=True)
        else:
            slot.live().reset(playing.episode.seed, playing.options, slot.needs)

    def _play(self, slot: Slot, *, fresh: bool) -> None:
        playing = slot.now()
        slot.live().play(
            playing.told,
            playing.left,
            fresh=fresh,
            until_success=playing.until_success,
            options=playing.options,
        )

    def _wait_for_policy(self, slot: Slot) -> None:
        self._waiting.append(slot)

    def _on_stepped(self, slot: Slot, reply: Stepped | Ticked) -> None:
        self.progress.steps += 1 if isinstance(reply, Ticked) else len(reply.rewards)
        self._turn = _average(self._turn, time.monotonic() - self._since.pop(slot.index))
        slot.take_steps(reply)
        if slot.now().ended:
            self._finish(slot)
        elif slot.has_actions:
            self._step(slot)
        else:
            self._wait_for_policy(slot)

    def _on_played(self, slot: Slot, reply: Played) -> None:
        playing = slot.now()
        assert slot.spaces is not None
        space, taken = slot.spaces[1], len(reply.rewards)
        actions = reply.actions
        due = (taken, *(space.shape or ()))
        if not isinstance(actions, np.ndarray) or actions.shape != due:
            raise slot.live().worker.broken(ContractError("it sent something else than actions"))
        self.progress.steps += taken
        playing.add(
            actions.astype(space.dtype, copy=False),
            reply.rewards,
            reply.successes,
            terminated=reply.terminated,
            truncated=reply.truncated,
        )
        if playing.ended:
            self._finish(slot)
        else:
            self._play(slot, fresh=False)

    def _step(self, slot: Slot) -> None:
        self._since[slot.index] = time.monotonic()
        slot.step()

    def _finish(self, slot: Slot) -> None:
        assert slot.spaces is not None
        playing = slot.now()
        self._patience.worked()
        self._record(playing.record(slot.spaces[1]), playing)
        slot.end_episode()
        self._next(slot)

    def _retire(self, slot: Slot) -> None:
        self._tell(slot, "done")
        self._schedule.release(slot.task)
        slot.task = None
        remote, slot.remote = slot.remote, None
        if remote is not None:
            # It closes its env and ends while others go on; `_close` waits for it.
            self._leaving.append(remote.worker)
            if isinstance(remote.worker, Worker):
                self._board.remove(remote.worker)
                remote.worker.channel.close()
        slot.close()

    # When something goes wrong

    def _failed(self, slot: Slot, error: WorkerError | ContractError) -> None:
        """A slot's episode has failed: it is run again or recorded, in a new worker."""
        playing = slot.playing
        self._since.pop(slot.index, None)
        if slot.making_policy and isinstance(error, WorkerRaised):
            raise error
        if slot.making_policy and playing is not None:
            self._patience.not_started("policy", error)
            self._schedule.put_back(playing.episode)
        elif playing is None and not slot.abandoned:
            self._patience.not_started("worker", error)
        elif playing is not None:
            self._patience.failed(error)
            self._settle(playing, error, slot.spaces[1] if slot.spaces else None)
        slot.end_episode()
        self._renew(slot)

    def _settle(self, playing: Playing, error: WorkerError | ContractError, space: Any) -> None:
        number = playing.episode.number
        self._attempts[number] = playing.attempt
        if playing.attempt <= self._job.retries:
            self._schedule.put_back(playing.episode)
        else:
            self._record(playing.failed(error, space), playing)

    def _renew(self, slot: Slot) -> None:
        """Replace a slot's worker, if there is anything left to do for it."""
        if slot.remote is not None:
            worker = slot.remote.worker
            if isinstance(worker, Worker):
                self._board.remove(worker)
            worker.end()
        slot.remote, slot.open_task = None, None
        if self._schedule.left and not self.stopping:
            self._hire(slot)
        else:
            self._retire(slot)
        self._wake_idle()

    def _wake_idle(self) -> None:
        """An episode that was put back may be for a slot that had retired."""
        if self.stopping:
            return
        for slot in self._slots:
            active = sum(s.remote is not None for s in self._slots)
            if slot.remote is None and self._schedule.left > active:
                self._hire(slot)

    def _react(self, event: Event) -> None:
        """Something came of the policy."""
        match event:
            case Learned():
                self._patience.started("policy")
                known, self._wanting = self._wanting, []
                for slot in known:
                    self._prepare(slot)
            case Acts(slots=slots, actions=actions):
                for slot, chunk in zip(slots, actions, strict=True):
                    if slot in self._waiting:
                        self._waiting.remove(slot)
                        slot.take_chunk(chunk)
                        self._step(slot)
            case Failure():
                self._policy_failed(event)

    def _policy_failed(self, failure: Failure) -> None:
        """A single episode is at fault; of several, each is run again, alone, to see which."""
        if not failure.slots and not failure.lost:
            raise failure.error
        if not failure.slots:
            self._patience.not_started("policy", failure.error)
        guilty = failure.slots if len(failure.slots) == 1 else ()
        for slot in failure.slots:
            if slot not in self._waiting:
                continue
            self._waiting.remove(slot)
            playing = slot.now()
            if slot in guilty:
                self._patience.failed(failure.error)
                self._settle(playing, failure.error, slot.spaces[1] if slot.spaces else None)
            else:
                self._alone.add(playing.episode.number)
                self._schedule.put_back(playing.episode)
            self._forget(slot)
        if failure.lost:
            self._restart_others()

    def _restart_others(self) -> None:
        """The policy's memory of all other episodes is gone: they begin again."""
        for slot in self._slots:
            if slot.playing is None or slot.remote is None or slot in self._wanting:
                continue
            if not slot.playing.began:
                continue
            self._schedule.put_back(slot.playing.episode)
            if slot in self._waiting:
                self._waiting.remove(slot)
                self._forget(slot)
            else:
                slot.end_episode()
                slot.abandoned = True
                self._since.pop(slot.index, None)

    def _forget(self, slot: Slot) -> None:
        slot.end_episode()
        self._next(slot)

    # Around it

    def _pump(self) -> None:
        if self._actor is not None and not self._holds_back():
            self._actor.pump(self._wanting, self._waiting)

    def _holds_back(self) -> bool:
        """Whether to wait for slots that are stepping: worth it if the policy is the slower one."""
        if self._actor is None or self._wanting or not self._waiting:
            return False
        patience = self._actor.seconds
        if not patience > self._turn > 0.0:
            return False
        now = time.monotonic()
        return any(now - since < patience for since in self._since.values())

    def _record(self, record: EpisodeRecord, playing: Playing) -> None:
        self.progress.done += 1
        if self._actor is not None:
            self._actor.finished(record.number)
        self._on_record(record, playing.actions())

    def _tell(self, slot: Slot, what: str) -> None:
        self.progress.slots[slot.index] = what

    def _close(self) -> None:
        remotes = [self._first, *(slot.remote for slot in self._slots)]
        workers = [remote.worker for remote in remotes if remote is not None]
        workers += self._leaving
        for worker in workers:
            if isinstance(worker, Worker):
                self._board.remove(worker)
        if self._actor is not None:
            self._actor.close()
        close_workers(workers, limit=self._job.limits.close)
        for slot in self._slots:
            slot.close()
        self._board.dispose()


def _spaces(slot: Slot) -> Spaces:
    assert slot.spaces is not None
    return slot.spaces


def _average(before: float, now: float) -> float:
    return now if before == 0.0 else 0.8 * before + 0.2 * now
