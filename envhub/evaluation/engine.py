"""The engine: slots play episodes, and a policy acts for the slots that wait.

No slot waits for a slower one: a slot that ends an episode takes the next at once, and the policy
acts for all slots that wait at that moment. A policy in several processes has a runner for each,
and every slot belongs to one of them. The engine is a loop over events: the answers of workers and
the results of the policy. The last event of a slot decides what it does next:

    started ─ Loaded ─▶ next episode ─ Opened, Done ─▶ env made ─ policy ready ─▶ episode begins
    WasReset ─▶ waits for actions ─ ActionsReady ─▶ steps ─ Stepped ─▶ steps, waits, or ends
    Played ─▶ continues, or ends                    (if the policy is in the worker)
"""

from collections.abc import Callable, Iterable

from envhub.errors import ContractError, RunAborted, WorkerError, WorkerRaised
from envhub.evaluation.attempt import Attempt
from envhub.evaluation.breaker import CircuitBreaker
from envhub.evaluation.episode_queue import EpisodeQueue
from envhub.evaluation.events import ActionsReady, Event, PolicyFailure, PolicyReady, PolicyRunner
from envhub.evaluation.job import Job, Progress
from envhub.evaluation.runner_pool import Findings, RunnerPool
from envhub.evaluation.slot import Slot
from envhub.evaluation.slot_pool import SlotPool
from envhub.host.remote import RemoteEnv
from envhub.host.waiting import WorkerPoller
from envhub.records import Episode, EpisodeRecord
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
        """Make the slots and the runners.

        Args:
            job: The episodes to run, and how.
            on_record: Called for every episode that has ended, with its actions and steps.
            first: A worker that has loaded the benchmark already.
            on_poll: Called a few times a second.
        """
        self.progress = Progress()
        self.stopping = False
        """Set this to finish the episodes under way and start no others."""
        self.unrepeated: Attempt | None = None
        """An attempt that began otherwise when the env was reset with its seed once more."""
        self._repeats_asked = not job.asks_for_repeat
        self._job = job
        self._on_record = on_record
        self._on_poll = on_poll
        self._poller = WorkerPoller()
        self._queue = EpisodeQueue(job)
        self._breaker = CircuitBreaker(job.max_errors, worked=job.worked)
        self.runners = RunnerPool(job, self._poller)
        self._pool = SlotPool(job, self._poller, first)
        self._supply = job.supply
        self._parked: list[Slot] = []
        """Slots whose workers wait for episodes that may yet be added."""
        if self._supply is not None:
            self._poller.watch(self._supply.fileno())

    @property
    def findings(self) -> Findings:
        """What playing has shown of the policy."""
        return self.runners

    @property
    def waiting(self) -> int:
        """How many episodes no worker has begun."""
        return self._queue.left

    def run(self) -> None:
        """Run until every episode has a record, or until `stopping` has taken effect.

        Raises:
            RunAborted: Nothing can be evaluated.
        """
        try:
            self._record_broken(self._job.episodes)
            while self._pool.busy:
                self._take_added()
                self._start_another()
                self.runners.pump()
                self._handle_events()
                self._on_poll()
        finally:
            self.runners.close()
            self._pool.close()
            self._poller.dispose()

    def _take_added(self) -> None:
        """Queue the episodes that were added; once none can be, stop the workers that wait."""
        if self._supply is None:
            return
        added = self._supply.take()
        if added is None or self.stopping:
            self._supply = None
        elif added:
            self._record_broken(added)
            self._queue.add(added)
        if self._supply is None or self._queue.left:
            parked, self._parked = self._parked, []
            for slot in parked:
                self._next_episode(slot)

    def _record_broken(self, episodes: Iterable[Episode]) -> None:
        """Record the episodes of tasks whose envs cannot be made, without trying again."""
        for episode in episodes:
            error = self._job.broken.get(episode.task)
            if error is not None:
                plan = self._job.plan
                task, told = plan.tasks[episode.task], plan.instruction(episode)
                attempt = Attempt(episode, task, 1, told)
                self._record(attempt.failed(error, None), attempt)

    def _start_another(self) -> None:
        """Start one more worker if there is work and a place for it, while the others work."""
        if not self._queue.left or self.stopping:
            if self._supply is None:
                self._pool.forget_idle()
        elif (slot := self._pool.take_idle()) is not None:
            if slot.remote is None:
                self._start(slot)
            elif slot.loaded:  # while it waited for its place
                self._next_episode(slot)
        elif (slot := self._pool.take_ahead()) is not None:
            self._start(slot)

    def _handle_events(self) -> None:
        """Handle every pending event; wait for one if there is none."""
        events = self.runners.events()
        for runner, event in events:
            self._on_policy_event(runner, event)
        if not events and not self._pool.answered():
            starting = self._pool.starting and self._queue.left
            self._poller.wait(0.0 if starting else self.runners.timeout())
        for slot in self._pool.answered():
            if slot.remote is not None:  # unless an event before this one ended it
                self._on_answer(slot, slot.env.worker.take())

    def _on_answer(self, slot: Slot, reply: Reply | WorkerError) -> None:
        if isinstance(reply, WorkerError):
            self._on_error(slot, reply)
            return
        try:
            self._on_reply(slot, reply)
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
            case WasReset() if slot.repeated is not None:
                self.unrepeated = slot.take_repeated(reply)
                self._next_episode(slot)
            case Opened():
                self._on_opened(slot, reply)
            case Done():
                self._on_env_made(slot)
            case Converted():
                slot.take_converted(reply)
                slot.share_memory()
            case PolicyLoaded():
                self._on_policy_loaded(slot, reply)
            case WasReset():
                slot.take_reset(reply)
                self.runners.of(slot).waiting.append(slot)
            case Stepped() | QuickStepped():
                self._on_stepped(slot, reply)
            case Played():
                self._on_played(slot, reply)
            case _:
                raise AssertionError(reply)

    # What a slot does next

    def _start(self, slot: Slot) -> None:
        if self._pool.start(slot):
            self._next_episode(slot)
            return
        self.progress.slots[slot.index] = "starting"
        slot.env.load()

    def _on_loaded(self, slot: Slot, loaded: Loaded) -> None:
        # Otherwise a worker that declares other tasks would be evaluated on those.
        if loaded.benchmark != self._job.benchmark:
            raise ContractError("The benchmark's code declares something else than before.")
        self._breaker.started("worker")
        slot.loaded = True
        if self._pool.has_place(slot):
            self._next_episode(slot)

    def _next_episode(self, slot: Slot) -> None:
        """Start the slot's next episode, or stop its worker."""
        attempt = None if self.stopping else self._queue.take(slot.task)
        if attempt is None and self._supply is not None and not self.stopping:
            self.progress.slots[slot.index] = "waiting"
            self._parked.append(slot)
            return
        if attempt is None:
            if not self._repeat_reset(slot):
                self._stop(slot)
            return
        episode = attempt.episode
        slot.current, slot.task = attempt, episode.task
        if self._job.benchmark.reuse == "reset" and slot.open_task == episode.task:
            self._begin(slot)
            return
        self.progress.slots[slot.index] = f"opening {episode.task}"
        self.progress.opened += 1
        slot.open_task = None
        slot.env.open(episode.suite, episode.task)

    def _repeat_reset(self, slot: Slot) -> bool:
        """Let the first slot without work reset its env as before; returns whether it does."""
        if self.stopping or self._repeats_asked or not slot.repeat_reset():
            return False
        self._repeats_asked = True
        return True

    def _on_opened(self, slot: Slot, opened: Opened) -> None:
        slot.open_task = slot.task
        # Mapping new memory costs page faults, so the memory of the last task is kept if it fits.
        if slot.take_spaces(opened):
            slot.share_memory()
        else:
            slot.attach()

    def _on_env_made(self, slot: Slot) -> None:
        """Begin the episode; the leaves that the policy reads must be known before the reset."""
        facts = self.runners.of(slot).facts(slot)
        if facts is not None:
            self._take_facts(facts)  # which may replace the runners
            facts = self.runners.of(slot).facts(slot)
        if facts is None:
            self.runners.of(slot).make_policy(slot)
        elif facts.format != "raw" and self._job.benchmark.lerobot and not slot.converted:
            slot.env.convert(facts.needs)
        else:
            # Of converted observations the policy is shown all; the worker knows what to draw.
            slot.needs = None if slot.converted else facts.needs
            slot.drawn = facts.needs
            self._begin(slot)

    def _on_policy_loaded(self, slot: Slot, loaded: PolicyLoaded) -> None:
        """Use the policy that a worker made, or start its own process if it asks for one."""
        assert slot.spaces is not None
        slot.making_policy, slot.worker_policy = False, (slot.spaces, loaded.facts)
        self._breaker.started("policy", self.runners.of(slot))
        self._take_facts(loaded.facts)
        self._on_env_made(slot)

    def _take_facts(self, facts: PolicyFacts) -> None:
        for waiting in self.runners.take_facts(facts):
            self._on_env_made(waiting)

    def _begin(self, slot: Slot) -> None:
        episode = slot.attempt.episode
        self.progress.slots[slot.index] = f"{episode.task} #{episode.index}"
        self.runners.of(slot).begin(slot)

    def _on_stepped(self, slot: Slot, reply: Stepped | QuickStepped) -> None:
        self.progress.steps += 1 if isinstance(reply, QuickStepped) else len(reply.rewards)
        runner = self.runners.of(slot)
        runner.pacing.step_ended(slot)
        slot.take_steps(reply)
        if slot.attempt.outcome.ended:
            self._on_ended(slot)
        elif slot.has_actions:
            self._step(slot)
        else:
            runner.waiting.append(slot)

    def _on_played(self, slot: Slot, reply: Played) -> None:
        slot.take_played(reply)
        self.progress.steps += len(reply.rewards)
        if slot.attempt.outcome.ended:
            self._on_ended(slot)
        else:
            self.runners.of(slot).resume(slot)

    def _step(self, slot: Slot) -> None:
        self.runners.of(slot).pacing.step_began(slot)
        slot.step()

    def _on_ended(self, slot: Slot) -> None:
        assert slot.spaces is not None
        attempt = slot.attempt
        self._breaker.worked(self.runners.of(slot))
        self._record(attempt.record(slot.spaces[1]), attempt)
        self._leave_episode(slot)

    def _stop(self, slot: Slot) -> None:
        self.progress.slots[slot.index] = "done"
        self._queue.release(slot.task)
        slot.task = None
        self._pool.stop(slot)

    # When something goes wrong

    def _on_error(self, slot: Slot, error: WorkerError | ContractError) -> None:
        """Retry or record the slot's episode, and replace its worker."""
        if slot.repeated is not None:  # all its episodes have ended well
            self._replace(slot)
            return
        attempt = slot.current
        self.runners.of(slot).pacing.forget(slot)
        if slot.making_policy and isinstance(error, WorkerRaised):
            raise error  # from the policy's code, which would raise in every worker
        if slot.making_policy and attempt is not None:
            self._breaker.not_started("policy", error, self.runners.of(slot))
            self._queue.put_back(attempt.episode)
        elif attempt is None and not slot.abandoned:
            self._breaker.not_started("worker", error)
        elif attempt is not None:
            self._breaker.failed(error)
            self._retry_or_record(slot, error)
        slot.end_episode()
        self._replace(slot)

    def _retry_or_record(self, slot: Slot, error: WorkerError | ContractError) -> None:
        attempt, space = slot.attempt, slot.spaces[1] if slot.spaces else None
        if not self._queue.retry(attempt):
            self._record(attempt.failed(error, space), attempt)

    def _replace(self, slot: Slot) -> None:
        """Replace a slot's worker, if episodes are left for it."""
        self._pool.kill(slot)
        if slot in self._parked:
            self._parked.remove(slot)
        if self._queue.left and not self.stopping:
            self._start(slot)
        else:
            self._stop(slot)
            if self._supply is not None:
                self._pool.wait_for_place(slot)
        if not self.stopping:
            # An episode that was put back may need a slot whose worker was stopped.
            for unused in self._pool.unused(self._queue.left):
                if self._pool.place(unused):
                    self._start(unused)
                else:
                    self._pool.wait_for_place(unused)

    def _on_policy_event(self, runner: PolicyRunner, event: Event) -> None:
        match event:
            case PolicyReady(slots=slots):
                self._breaker.started("policy", runner)
                for slot in slots:
                    self._on_env_made(slot)
            case ActionsReady(slots=slots, actions=actions):
                self.runners.acted(runner, event)
                for slot, chunk in zip(slots, actions, strict=True):
                    if slot in runner.waiting:
                        runner.waiting.remove(slot)
                        slot.take_chunk(chunk)
                        self._step(slot)
            case PolicyFailure():
                self._on_policy_failure(runner, event)

    def _on_policy_failure(self, runner: PolicyRunner, failure: PolicyFailure) -> None:
        """Blame the episode if it was alone; else run each one again alone, to find the culprit."""
        if not failure.slots and not failure.lost:
            raise failure.error
        if not failure.slots:
            self._breaker.not_started("policy", failure.error, runner)
        single = len(failure.slots) == 1
        for slot in failure.slots:
            if slot not in runner.waiting:
                continue
            runner.waiting.remove(slot)
            if single:
                self._breaker.failed(failure.error)
                self._retry_or_record(slot, failure.error)
            else:
                self._queue.put_back(slot.attempt.episode, alone=True)
            self._leave_episode(slot)
        if failure.lost:
            self._restart_others(runner)

    def _restart_others(self, runner: PolicyRunner) -> None:
        """Restart the other episodes of a runner: its process has lost its state for them."""
        for slot in self._pool.slots:
            if slot.current is None or slot.remote is None or not slot.current.began:
                continue
            if self.runners.of(slot) is not runner:
                continue
            self._queue.put_back(slot.current.episode)
            if slot in runner.waiting:
                runner.waiting.remove(slot)
                self._leave_episode(slot)
            else:  # its worker is stepping: drop the answer when it arrives
                slot.end_episode()
                slot.abandoned = True
                runner.pacing.forget(slot)

    def _leave_episode(self, slot: Slot) -> None:
        slot.end_episode()
        self._next_episode(slot)

    def _record(self, record: EpisodeRecord, attempt: Attempt) -> None:
        self.progress.done += 1
        self.runners.finished(record.number)
        self._on_record(record, attempt.actions(), attempt.steps())
