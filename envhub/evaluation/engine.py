"""The engine: slots play episodes, and a policy acts for the slots that wait.

No slot waits for a slower one: a slot that ends an episode takes the next at once, and the policy
acts for all slots that wait at that moment. A policy in several processes has an actor for each,
and every slot belongs to one of them. The engine is a loop over events: the answers of workers and
the results of the policy. The last event of a slot decides what it does next:

    hired ─ Loaded ─▶ next episode ─ Opened, Done ─▶ env made ─ policy ready ─▶ episode begins
    WasReset ─▶ waits for actions ─ ActionsReady ─▶ steps ─ Stepped ─▶ steps, waits, or ends
    Played ─▶ continues, or ends                    (if the policy is in the worker)
"""

from collections.abc import Callable

import numpy as np

from envhub.errors import ContractError, RunAborted, WorkerError, WorkerRaised
from envhub.evaluation.actors import (
    Actor,
    InWorkerActor,
    close_actors,
    make_actors,
    make_process_actors,
)
from envhub.evaluation.agreement import Agreement, agree, remark_on
from envhub.evaluation.attempt import Attempt
from envhub.evaluation.breaker import CircuitBreaker
from envhub.evaluation.events import ActionsReady, Event, PolicyFailure, PolicyReady
from envhub.evaluation.job import Job, Progress
from envhub.evaluation.outliers import OutlierLog
from envhub.evaluation.process_actor import ProcessActor
from envhub.evaluation.schedule import Schedule
from envhub.evaluation.slot import Slot
from envhub.evaluation.slot_pool import SlotPool
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import WorkerPoller
from envhub.records import EpisodeRecord
from envhub.results.latency import Latency
from envhub.types import PolicyFacts
from envhub.wire.messages import (
    Converted,
    Done,
    Loaded,
    Opened,
    Played,
    PolicyLoaded,
    QuickStepped,
    Reply,
    Stepped,
    WasReset,
)
from envhub.wire.values import Array

OnRecord = Callable[[EpisodeRecord, Array | None, Array | None], None]


class Engine:
    """Runs the episodes of a job, once."""

    def __init__(
        self,
        job: Job,
        on_record: OnRecord,
        *,
        first: RemoteEnv | None = None,
        on_poll: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the slots and the actor.

        Args:
            job: The episodes to run, and how.
            on_record: Called for every episode that has ended, with its actions and steps.
            first: A worker that has loaded the benchmark already.
            on_poll: Called a few times a second.
        """
        self.progress = Progress()
        self.stopping = False
        """Set this to finish the episodes under way and start no others."""
        self.facts: PolicyFacts | None = None
        self.latency = Latency()
        self.agreement: Agreement | None = None
        """The conventions of the benchmark and of the policy, once it is made."""
        self.remarks: tuple[str, ...] = ()
        """Sentences for the user about the policy."""
        self.outliers = OutlierLog(job.plan.episodes, job.episodes)
        self._job = job
        self._on_record = on_record
        self._on_poll = on_poll
        self._poller = WorkerPoller()
        self._schedule = Schedule(job.playable, job.workers)
        self._attempts: dict[int, int] = {}
        self._alone: set[int] = set()
        self._breaker = CircuitBreaker(job.max_errors, worked=job.worked)
        self._actors = make_actors(job, self._poller)
        self._pool = SlotPool(job, self._poller, first)

    def run(self) -> None:
        """Run until every episode has a record, or until `stopping` has taken effect.

        Raises:
            RunAborted: Nothing can be evaluated.
        """
        try:
            self._record_broken()
            while self._pool.busy:
                self._hire_another()
                for actor in self._actors:
                    if not self._holds_back(actor):
                        actor.pump()
                self._handle_events()
                self._on_poll()
        finally:
            close_actors(self._actors, self._job.limits.close)
            self._pool.close()
            self._poller.dispose()

    def _record_broken(self) -> None:
        """Record the episodes of tasks whose envs cannot be made, without trying again."""
        for episode in self._job.episodes:
            error = self._job.broken.get(episode.task)
            if error is not None:
                attempt = Attempt(episode, self._job.plan.tasks[episode.task], 1)
                self._record(attempt.failed(error, None), attempt)

    def _hire_another(self) -> None:
        """Start one more worker if there is work for it, while the others work."""
        while (slot := self._pool.take_idle()) is not None:
            if self._schedule.left and not self.stopping:
                self._hire(slot)
                return

    def _actor_of(self, slot: Slot) -> Actor:
        """Return the actor that a slot belongs to: no episode changes it."""
        return self._actors[slot.index % len(self._actors)]

    def _holds_back(self, actor: Actor) -> bool:
        """Whether to wait for more slots before the policy acts."""
        if actor.awaiting_policy or not actor.waiting:
            return False
        facts = actor.facts(actor.waiting[0])
        if facts is not None and facts.batch is not None and len(actor.waiting) >= facts.batch:
            return False  # a call cannot take more
        return actor.pacing.holds_back(actor.seconds)

    def _handle_events(self) -> None:
        """Handle every pending event; wait for one if there is none."""
        # All of them first: an event may replace the actors.
        events = [(actor, event) for actor in self._actors if (event := actor.event()) is not None]
        for actor, event in events:
            self._on_policy_event(actor, event)
        if not events and not self._pool.answered():
            timeout = min(a.pacing.timeout(holding_back=self._holds_back(a)) for a in self._actors)
            self._poller.wait(0.0 if self._pool.starting else timeout)
        for slot in self._pool.answered():
            if slot.remote is not None:  # unless an event before this one ended it
                self._on_answer(slot, slot.env.worker.take())

    def _on_answer(self, slot: Slot, outcome: Reply | WorkerError) -> None:
        if isinstance(outcome, WorkerError):
            self._on_error(slot, outcome)
            return
        try:
            self._on_reply(slot, outcome)
        except RunAborted:
            raise
        except ContractError as error:
            self._on_error(slot, error)

    def _on_reply(self, slot: Slot, reply: Reply) -> None:
        match reply:
            case Loaded():
                self._on_loaded(slot, reply)
            case _ if slot.abandoned:
                slot.abandoned = False
                self._next_episode(slot)
            case Opened():
                self._on_opened(slot, reply)
            case Done():
                self._on_env_made(slot)
            case Converted():
                self._on_converted(slot, reply)
            case PolicyLoaded():
                self._on_policy_loaded(slot, reply)
            case WasReset():
                slot.attempt.instruct(reply.description)
                slot.keep_texts(reply, slot.needs)
                self._actor_of(slot).waiting.append(slot)
            case Stepped() | QuickStepped():
                self._on_stepped(slot, reply)
            case Played():
                self._on_played(slot, reply)
            case _:
                raise AssertionError(reply)

    # What a slot does next

    def _hire(self, slot: Slot) -> None:
        if self._pool.hire(slot):
            self._next_episode(slot)
            return
        self._show(slot, "starting")
        slot.env.load()

    def _on_loaded(self, slot: Slot, loaded: Loaded) -> None:
        # Otherwise a worker that declares other tasks would be evaluated on those.
        if loaded.benchmark != self._job.benchmark:
            raise ContractError("The benchmark's code declares something else than before.")
        self._breaker.started("worker")
        self._next_episode(slot)

    def _next_episode(self, slot: Slot) -> None:
        """Start the slot's next episode, or retire the slot."""
        episode = None if self.stopping else self._schedule.take(slot.task)
        if episode is None:
            self._retire(slot)
            return
        slot.task = episode.task
        number = self._attempts.get(episode.number, 0) + 1
        slot.current = Attempt(episode, self._job.plan.tasks[episode.task], number)
        slot.current.alone = episode.number in self._alone
        if self._job.benchmark.reuse == "reset" and slot.open_task == episode.task:
            self._begin(slot)
            return
        self._show(slot, f"opening {episode.task}")
        self.progress.opened += 1
        slot.open_task = None
        slot.env.open(episode.suite, episode.task)

    def _on_opened(self, slot: Slot, opened: Opened) -> None:
        slot.open_task = slot.task
        # Mapping new memory costs page faults, so the memory of the last task is kept if it fits.
        if slot.take_spaces(opened):
            slot.share_memory()
        else:
            slot.attach()

    def _on_env_made(self, slot: Slot) -> None:
        """Begin the episode; the leaves that the policy reads must be known before the reset."""
        facts = self._actor_of(slot).facts(slot)
        if facts is not None:
            self._take_facts(facts)  # which may replace the actors
            facts = self._actor_of(slot).facts(slot)
        if facts is None:
            self._actor_of(slot).make_policy(slot)
        elif facts.format == "lerobot" and self._job.benchmark.lerobot and not slot.converted:
            slot.env.convert(facts.needs)
        else:
            # Of converted observations the policy is shown all; the worker knows what to draw.
            slot.needs = None if slot.converted else facts.needs
            self._begin(slot)

    def _on_converted(self, slot: Slot, converted: Converted) -> None:
        slot.take_converted(converted)
        slot.share_memory()

    def _on_policy_loaded(self, slot: Slot, loaded: PolicyLoaded) -> None:
        """Use the policy that a worker made, or start its own process if it asks for one."""
        assert slot.spaces is not None
        slot.making_policy, slot.worker_policy = False, (slot.spaces, loaded.facts)
        self._breaker.started("policy", self._actor_of(slot))
        self._take_facts(loaded.facts)
        self._on_env_made(slot)

    def _take_facts(self, facts: PolicyFacts) -> None:
        """Compare conventions, and replace the actors if the policy declares another placement."""
        if self.facts is None or self.facts.conventions != facts.conventions:
            self._compare_conventions(facts)
        if self.facts is not None:
            if self.facts.placement != facts.placement:
                raise RunAborted("The policy's placement is not the same for all tasks.")
            return
        self.facts = facts
        actor = self._actors[0]
        if facts.placement == "process" and isinstance(actor, InWorkerActor):
            self._actors = make_process_actors(self._job, self._poller)
        elif facts.placement == "worker" and isinstance(actor, ProcessActor) and self._job.shared:
            # Only without a sandbox and a runtime can workers run the user's policy.
            self._move_into_workers()

    def _move_into_workers(self) -> None:
        """Let workers make the policy, for slots too that waited for other processes of it."""
        orphans = [slot for actor in self._actors for slot in actor.awaiting_policy]
        close_actors(self._actors, self._job.limits.close)
        self._actors = [InWorkerActor(self._job)]
        for slot in orphans:
            self._on_env_made(slot)

    def _compare_conventions(self, facts: PolicyFacts) -> None:
        job = self._job
        self.agreement = agree(job.benchmark, facts, ignore=job.ignore_conventions)
        remark = remark_on(self.agreement, job.benchmark, own=job.in_worker)
        said = facts.remarks if remark is None else (*facts.remarks, remark)
        self.remarks = tuple(dict.fromkeys((*self.remarks, *said)))

    def _begin(self, slot: Slot) -> None:
        episode = slot.attempt.episode
        self._show(slot, f"{episode.task} #{episode.index}")
        self._actor_of(slot).begin(slot)

    def _on_stepped(self, slot: Slot, reply: Stepped | QuickStepped) -> None:
        self.progress.steps += 1 if isinstance(reply, QuickStepped) else len(reply.rewards)
        actor = self._actor_of(slot)
        actor.pacing.step_ended(slot)
        slot.take_steps(reply)
        if slot.attempt.outcome.ended:
            self._on_ended(slot)
        elif slot.has_actions:
            self._step(slot)
        else:
            actor.waiting.append(slot)

    def _on_played(self, slot: Slot, reply: Played) -> None:
        assert slot.spaces is not None
        attempt, space, taken = slot.attempt, slot.spaces[1], len(reply.rewards)
        actions = reply.actions
        expected = (taken, *(space.shape or ()))
        if not isinstance(actions, np.ndarray) or actions.shape != expected:
            raise slot.env.worker.broken(ContractError("it sent something else than actions"))
        self.progress.steps += taken
        if reply.description is not None:
            attempt.instruct(reply.description)
        attempt.add(
            actions.astype(space.dtype, copy=False),
            reply.rewards,
            reply.successes,
            terminated=reply.terminated,
            truncated=reply.truncated,
        )
        if attempt.outcome.ended:
            self._on_ended(slot)
        else:
            self._actor_of(slot).resume(slot)

    def _step(self, slot: Slot) -> None:
        self._actor_of(slot).pacing.step_began(slot)
        slot.step()

    def _on_ended(self, slot: Slot) -> None:
        assert slot.spaces is not None
        attempt = slot.attempt
        self._breaker.worked(self._actor_of(slot))
        self._record(attempt.record(slot.spaces[1]), attempt)
        slot.end_episode()
        self._next_episode(slot)

    def _retire(self, slot: Slot) -> None:
        self._show(slot, "done")
        self._schedule.release(slot.task)
        slot.task = None
        self._pool.retire(slot)

    # When something goes wrong

    def _on_error(self, slot: Slot, error: WorkerError | ContractError) -> None:
        """Retry or record the slot's episode, and replace its worker."""
        attempt = slot.current
        self._actor_of(slot).pacing.forget(slot)
        if slot.making_policy and isinstance(error, WorkerRaised):
            raise error  # from the policy's code, which would raise in every worker
        if slot.making_policy and attempt is not None:
            self._breaker.not_started("policy", error, self._actor_of(slot))
            self._schedule.put_back(attempt.episode)
        elif attempt is None and not slot.abandoned:
            self._breaker.not_started("worker", error)
        elif attempt is not None:
            self._breaker.failed(error)
            self._retry_or_record(slot, error)
        slot.end_episode()
        self._replace(slot)

    def _retry_or_record(self, slot: Slot, error: WorkerError | ContractError) -> None:
        attempt, space = slot.attempt, slot.spaces[1] if slot.spaces else None
        self._attempts[attempt.episode.number] = attempt.number
        if attempt.number <= self._job.retries:
            self._schedule.put_back(attempt.episode)
        else:
            self._record(attempt.failed(error, space), attempt)

    def _replace(self, slot: Slot) -> None:
        """Replace a slot's worker, if episodes are left for it."""
        self._pool.dismiss(slot)
        if self._schedule.left and not self.stopping:
            self._hire(slot)
        else:
            self._retire(slot)
        if not self.stopping:
            # An episode that was put back may need a slot that has retired.
            for unused in self._pool.unused(self._schedule.left):
                self._hire(unused)

    def _on_policy_event(self, actor: Actor, event: Event) -> None:
        match event:
            case PolicyReady(slots=slots):
                self._breaker.started("policy", actor)
                for slot in slots:
                    self._on_env_made(slot)
            case ActionsReady(slots=slots, actions=actions):
                self.latency.add(event.seconds)
                self.outliers.add(event.outliers)
                self._tell_outlier()
                for slot, chunk in zip(slots, actions, strict=True):
                    if slot in actor.waiting:
                        actor.waiting.remove(slot)
                        slot.take_chunk(chunk)
                        self._step(slot)
            case PolicyFailure():
                self._on_policy_failure(actor, event)

    def _on_policy_failure(self, actor: Actor, failure: PolicyFailure) -> None:
        """Blame the episode if it was alone; else run each one again alone, to find the culprit."""
        if not failure.slots and not failure.lost:
            raise failure.error
        if not failure.slots:
            self._breaker.not_started("policy", failure.error, actor)
        single = len(failure.slots) == 1
        for slot in failure.slots:
            if slot not in actor.waiting:
                continue
            actor.waiting.remove(slot)
            if single:
                self._breaker.failed(failure.error)
                self._retry_or_record(slot, failure.error)
            else:
                self._alone.add(slot.attempt.episode.number)
                self._schedule.put_back(slot.attempt.episode)
            self._leave_episode(slot)
        if failure.lost:
            self._restart_others(actor)

    def _restart_others(self, actor: Actor) -> None:
        """Restart the other episodes of an actor: its process has lost its state for them."""
        for slot in self._pool.slots:
            if slot.current is None or slot.remote is None or not slot.current.began:
                continue
            if self._actor_of(slot) is not actor:
                continue
            self._schedule.put_back(slot.current.episode)
            if slot in actor.waiting:
                actor.waiting.remove(slot)
                self._leave_episode(slot)
            else:  # its worker is stepping: drop the answer when it arrives
                slot.end_episode()
                slot.abandoned = True
                actor.pacing.forget(slot)

    def _leave_episode(self, slot: Slot) -> None:
        slot.end_episode()
        self._next_episode(slot)

    def _record(self, record: EpisodeRecord, attempt: Attempt) -> None:
        self.progress.done += 1
        self.outliers.ended(record.number)
        self._tell_outlier()
        for actor in self._actors:  # an attempt before may have been with another one
            actor.finished(record.number)
        self._on_record(record, attempt.actions(), attempt.steps())

    def _tell_outlier(self) -> None:
        remark = self.outliers.take_remark()
        if remark is not None:
            self.remarks += (remark,)

    def _show(self, slot: Slot, activity: str) -> None:
        self.progress.slots[slot.index] = activity
