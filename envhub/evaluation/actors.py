"""Who acts for the slots: a policy in its own process, in this process, or in the workers.

An actor is told which slots want to know what the policy reads (`learn`), and holds those that wait
for actions (`waiting`); `pump` lets it do what it can. What comes of it is handed to the engine as
events.
"""

from typing import Any, Protocol

from envhub.errors import EnvHubError, RunAborted, WorkerRaised
from envhub.evaluation.events import ActionsReady, Event, PolicyFailure, PolicyReady
from envhub.evaluation.job import Job
from envhub.evaluation.process_actor import ProcessActor
from envhub.evaluation.slot import Slot, batch_of, reset, spaces_of
from envhub.host.waiting import WorkerPoller
from envhub.policies.caller import PolicyCaller
from envhub.policies.contract import Context
from envhub.policies.load import ObservationView, context_of, make_caller, wrap_policy
from envhub.types import HERE, Benchmark, PolicyFacts, PolicySource, PolicySpec
from envhub.wire.spaces import Spaces
from envhub.wire.values import Array


class Actor(Protocol):
    """A policy, wherever it runs."""

    waiting: list[Slot]
    """Slots that wait for actions."""
    learning: list[Slot]
    """Slots that wait to know what the policy for their spaces declares."""
    seconds: float
    """What a call takes, on average."""

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """What the policy for the slot's spaces declares, if that is known."""
        ...

    def learn(self, slot: Slot) -> None:
        """Find it out."""
        ...

    def begin(self, slot: Slot) -> None:
        """Begin the slot's episode."""
        ...

    def resume(self, slot: Slot) -> None:
        """Play on in an episode that has come to no end."""
        ...

    def pump(self) -> None:
        """Do what can be done now."""
        ...

    def event(self) -> Event | None:
        """What came of it, if anything did."""
        ...

    def finished(self, number: int) -> None:
        """An episode has ended."""
        ...

    def close(self) -> None:
        """End the policy."""
        ...


def make_actor(job: Job, poller: WorkerPoller) -> Actor:
    """The actor to begin with; where the policy wants to be is known once it is made."""
    if job.workers == 0 or not isinstance(job.policy, PolicySource):
        return InlineActor(job.policy, job.benchmark)
    return InWorkerActor(job) if job.in_worker else make_process_actor(job, poller)


def make_process_actor(job: Job, poller: WorkerPoller) -> ProcessActor:
    """The policy in a process of its own.

    Raises:
        RunAborted: Its code may not leave its sandbox.
    """
    assert isinstance(job.policy, PolicySource)
    if job.in_worker and job.spec.confinement is not None:
        raise RunAborted(
            "The policy comes with a benchmark that is kept in a sandbox, and wants a process "
            "of its own, which is not: its placement must be 'worker'."
        )
    log = job.logs / "policy.log" if job.logs else None
    # A policy that comes with the benchmark may need what the benchmark's runtime has.
    spec = PolicySpec(job.limits, job.spec.interpreter if job.in_worker else HERE)
    return ProcessActor(job.policy, job.benchmark, spec, poller, log)


class InWorkerActor:
    """A policy in each worker, beside its env: no message per step, and nothing to wait for."""

    seconds = 0.0

    def __init__(self, job: Job) -> None:
        self.waiting: list[Slot] = []
        self.learning: list[Slot] = []
        self._job = job

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """What the worker's policy declares, if it has one for the slot's spaces."""
        made = slot.worker_policy
        # It plays other tasks with the same spaces too, as in a process of its own.
        return made[1] if made is not None and made[0] is slot.spaces else None

    def learn(self, slot: Slot) -> None:
        """Make the policy in the worker, whose answer follows."""
        slot.making_policy = True
        job = self._job
        slot.env.load_policy(job.policy, job.benchmark, spaces_of(slot))

    def begin(self, slot: Slot) -> None:
        """Let the worker play from a reset on."""
        self._play(slot, fresh=True)

    def resume(self, slot: Slot) -> None:
        """Let the worker play on."""
        self._play(slot, fresh=False)

    def pump(self) -> None:
        """The workers do all by themselves."""

    def event(self) -> Event | None:
        """What comes of it, the workers answer."""
        return None

    def finished(self, number: int) -> None:
        """The worker knows."""

    def close(self) -> None:
        """Policies end with their workers."""

    def _play(self, slot: Slot, *, fresh: bool) -> None:
        attempt = slot.attempt
        slot.env.play(
            attempt.info,
            attempt.outcome.left,
            fresh=fresh,
            until_success=attempt.outcome.until_success,
            options=attempt.options,
        )


class InlineActor:
    """A policy in this process: an object of the caller's, or any with `--workers 0`."""

    seconds = 0.0
    """Nothing else can happen while it acts, so that waiting would save nothing."""

    def __init__(self, policy: Any, benchmark: Benchmark) -> None:
        """Take a policy.

        Args:
            policy: A policy, or a `PolicySource` to make it from.
            benchmark: What it is to be evaluated on.
        """
        self.waiting: list[Slot] = []
        self.learning: list[Slot] = []
        self._policy = policy
        self._benchmark = benchmark
        self._known: list[tuple[Spaces, PolicyCaller, ObservationView]] = []
        self._contexts: dict[int, tuple[Context, PolicyCaller]] = {}
        self._event: Event | None = None

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """What the policy for this slot's spaces declares, if it is made."""
        index = self._index(slot)
        return None if index is None else self._known[index][1].facts

    def learn(self, slot: Slot) -> None:
        """Make the policy for the slot's spaces; `PolicyReady` follows."""
        self.learning.append(slot)

    def begin(self, slot: Slot) -> None:
        """Reset the env; then the slot waits for actions."""
        reset(slot)

    def resume(self, slot: Slot) -> None:
        """Only a policy in the worker plays on by itself."""
        raise AssertionError(slot)

    def pump(self) -> None:
        """Make the policy, or let it act, now."""
        if self._event is not None:
            return
        new = next((slot for slot in self.learning if self.facts(slot) is None), None)
        batch: tuple[Slot, ...] = ()
        try:
            if new is not None:
                self._make(spaces_of(new))
                learning, self.learning = tuple(self.learning), []
                self._event = PolicyReady(learning)
                return
            batch = batch_of(self.waiting, self._index)
            if batch:
                self._event = ActionsReady(batch, self._act(batch))
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
            self._event = PolicyFailure(batch, error, lost=False)

    def event(self) -> Event | None:
        """What came of the last call."""
        event, self._event = self._event, None
        return event

    def finished(self, number: int) -> None:
        """An episode has ended."""
        if number in self._contexts:
            context, caller = self._contexts.pop(number)
            caller.finish(context)

    def close(self) -> None:
        """Close the policy, if it was made here."""
        if isinstance(self._policy, PolicySource):
            for _, caller, _ in self._known:
                caller.close()

    def _make(self, spaces: Spaces) -> None:
        if isinstance(self._policy, PolicySource):
            caller = make_caller(self._policy, self._benchmark, spaces)
        else:
            caller = wrap_policy(self._policy, spaces)
        self._known.append((spaces, caller, ObservationView(spaces[0], caller.facts.needs)))

    def _act(self, batch: tuple[Slot, ...]) -> Array:
        index = self._index(batch[0])
        assert index is not None
        _, caller, view = self._known[index]
        if batch[0].converted is not None:  # the policy is shown all of it
            view = ObservationView(batch[0].converted, None)
        contexts = [self._context(caller, slot) for slot in batch]
        return caller.act(view.batch(batch, Slot.value), contexts)

    def _context(self, caller: PolicyCaller, slot: Slot) -> Context:
        attempt = slot.attempt
        number = attempt.episode.number
        if not attempt.began:
            attempt.began = True
            self._contexts[number] = context_of(attempt.info), caller
            caller.start(self._contexts[number][0])
        context, _ = self._contexts[number]
        context.step = attempt.outcome.steps
        return context

    def _index(self, slot: Slot) -> int | None:
        for index, (spaces, _, _) in enumerate(self._known):
            if spaces == slot.spaces:
                return index
        return None
