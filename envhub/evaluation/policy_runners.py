"""Call the policy for the slots: in its own process, in this process, or in the workers.

The engine asks a policy runner to make the policy for a slot's spaces (`make_policy`) and appends
slots that wait for actions to `waiting`. `pump` starts the runner's next work, whose result the
engine takes as an event. A policy in several processes has one runner per process.
"""

import time
from collections.abc import Sequence
from contextlib import chdir, nullcontext
from pathlib import Path

from envhub.errors import EnvHubError, WorkerRaised
from envhub.evaluation.events import (
    ActionsReady,
    Event,
    PolicyFailure,
    PolicyReady,
    PolicyRunner,
)
from envhub.evaluation.job import Job
from envhub.evaluation.process_runner import KnownFacts, ProcessRunner
from envhub.evaluation.slot import Slot, batch_of, spaces_of
from envhub.host.log import add_to_log
from envhub.host.waiting import WorkerPoller, close_workers
from envhub.tracebacks import place_of, trace_of
from envhub.types import Batch, PolicyFacts, PolicySource, PolicySpec
from envhub.wire.policy_contract import Chunks, Context
from envhub.wire.spaces import Spaces
from envhub.worker.policy.caller import PolicyCaller
from envhub.worker.policy.load import ObservationView, context_of, make_caller


def make_runners(job: Job, poller: WorkerPoller) -> Sequence[PolicyRunner]:
    """Make the first runners; the placement of the policy is known once the policy is made."""
    if job.workers == 0 or job.policy.acts_in == "program":
        return [InlineRunner(job, _log(job, "policy"))]
    return [WorkerRunner(job)] if job.in_worker else make_process_runners(job, poller)


def make_process_runners(job: Job, poller: WorkerPoller) -> Sequence[ProcessRunner]:
    """Make the runners for a policy in processes of its own, no more than there are slots.

    A policy of a confined benchmark refuses to be loaded there: see `envhub.loader`.
    """
    factory = job.factory
    assert isinstance(factory, PolicySource)
    # A policy of the benchmark may need the packages of the benchmark's runtime.
    interpreter = job.spec.interpreter if job.in_worker else job.policy_interpreter
    devices = job.policy_devices[: max(1, min(job.workers, len(job.episodes)))]
    several = len(devices) > 1
    known: KnownFacts = []
    return [
        ProcessRunner(
            factory,
            job.benchmark,
            PolicySpec(job.limits, interpreter, str(job.policy.directory), device),
            poller,
            known,
            batch=job.batch,
            name=f"process {number}" if several else "its own process",
            log=_log(job, f"policy-{number}" if several else "policy"),
        )
        for number, device in enumerate(devices)
    ]


def close_runners(runners: Sequence[PolicyRunner], limit: float) -> None:
    """Close the policy, in all its processes at once.

    Args:
        runners: Those of a run.
        limit: Seconds after which processes that have not ended are killed.
    """
    processes = [runner.leave() for runner in runners if isinstance(runner, ProcessRunner)]
    close_workers(processes, limit=limit)
    for runner in runners:
        runner.close()


def _log(job: Job, name: str) -> Path | None:
    return job.logs / f"{name}.log" if job.logs else None


class WorkerRunner(PolicyRunner):
    """A policy in each worker, which plays by itself: no message per step, nothing to wait for."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job, self._factory = job, job.factory

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """Return what the worker's policy declares, if it has one for the slot's spaces."""
        made = slot.worker_policy
        # It also plays other tasks with the same spaces, as a policy in its own process does.
        return made[1] if made is not None and made[0] is slot.spaces else None

    def make_policy(self, slot: Slot) -> None:
        """Ask the worker to make the policy; it answers `PolicyLoaded`."""
        slot.making_policy = True
        job = self._job
        assert isinstance(self._factory, PolicySource)
        slot.env.load_policy(self._factory, job.benchmark, spaces_of(slot), job.batch)

    def begin(self, slot: Slot) -> None:
        """Let the worker reset its env and play."""
        self._play(slot, fresh=True)

    def resume(self, slot: Slot) -> None:
        """Let the worker continue the episode."""
        self._play(slot, fresh=False)

    def _play(self, slot: Slot, *, fresh: bool) -> None:
        attempt = slot.attempt
        slot.env.play(
            attempt.info,
            attempt.outcome.left,
            fresh=fresh,
            until_success=attempt.outcome.until_success,
            options=attempt.options,
            delays=attempt.delays if fresh else None,
        )


class InlineRunner(PolicyRunner):
    """A policy in this process: an object of the caller, or any policy with `--workers 0`."""

    def __init__(self, job: Job, log: Path | None) -> None:
        """Take a policy.

        Args:
            job: The policy, and the benchmark that it is evaluated on.
            log: A file for the tracebacks of its exceptions.
        """
        super().__init__()
        self._log = log
        self._directory = job.policy.directory
        self._factory = job.factory
        self._benchmark = job.benchmark
        self._batch: Batch = job.batch
        self._known: list[tuple[Spaces, PolicyCaller, ObservationView]] = []
        self._contexts: dict[int, tuple[Context, PolicyCaller]] = {}
        self._event: Event | None = None

    def facts(self, slot: Slot) -> PolicyFacts | None:
        """Return what the policy for this slot's spaces declares, if it is made."""
        index = self._index(slot)
        return None if index is None else self._known[index][1].facts

    def pump(self) -> None:
        """Make the policy, or let it act, now."""
        if self._event is not None:
            return
        new = next((slot for slot in self.awaiting_policy if self.facts(slot) is None), None)
        batch: tuple[Slot, ...] = ()
        try:
            if new is not None:
                self._make(spaces_of(new))
                slots, self.awaiting_policy = tuple(self.awaiting_policy), []
                self._event = PolicyReady(slots)
                return
            batch = batch_of(self.waiting, self._index, self._most)
            if batch:
                began = time.monotonic()
                actions, caller = self._act(batch)
                seconds = time.monotonic() - began
                taken = caller.take_outliers(), caller.take_remarks(), caller.take_about()
                calls = self._size.count(self.facts(batch[0]), len(batch), seconds)
                self._event = ActionsReady(batch, actions, seconds, calls, seconds, *taken)
        except (Exception, SystemExit) as exc:
            contract = isinstance(exc, EnvHubError)
            verb = "acting" if batch else "making"
            error = WorkerRaised(
                f"{verb} of the policy",
                type(exc).__name__,
                str(exc),
                contract=contract,
                traceback=trace_of(exc),
                where="policy",
                place=place_of(exc),
            )
            add_to_log(self._log, error.traceback)
            error.__cause__ = exc
            self._event = PolicyFailure(batch, error, lost=False)

    def event(self) -> Event | None:
        """Return the result of the last call."""
        event, self._event = self._event, None
        return event

    def finished(self, number: int) -> None:
        """Tell the policy that an episode has ended."""
        if number in self._contexts:
            context, caller = self._contexts.pop(number)
            caller.finish(context)

    def close(self) -> None:
        """Close the policy, if it was made here."""
        if isinstance(self._factory, PolicySource):
            for _, caller, _ in self._known:
                caller.close()

    def _make(self, spaces: Spaces) -> None:
        # A resumed run may have begun elsewhere; several threads must not move each other.
        named = isinstance(self._factory, PolicySource)
        elsewhere = named and self._directory.resolve() != Path.cwd()
        with chdir(self._directory) if elsewhere else nullcontext():
            caller = make_caller(self._factory, self._benchmark, spaces, self._batch)
        self._known.append((spaces, caller, ObservationView(spaces[0], caller.facts.needs)))

    def _act(self, batch: tuple[Slot, ...]) -> tuple[Chunks, PolicyCaller]:
        index = self._index(batch[0])
        assert index is not None
        _, caller, view = self._known[index]
        if batch[0].converted is not None:  # the policy is shown all of it
            caller.check_space(batch[0].converted)
            view = ObservationView(batch[0].converted, None)
        contexts = [self._context(caller, slot) for slot in batch]
        actions = caller.act_by_call(lambda part: view.batch(batch[part], Slot.value), contexts)
        return actions, caller

    def _context(self, caller: PolicyCaller, slot: Slot) -> Context:
        attempt = slot.attempt
        number = attempt.episode.number
        if not attempt.began:
            attempt.began = True
            self._contexts[number] = (
                context_of(attempt.info, caller.facts.instructions),
                caller,
            )
            caller.start(self._contexts[number][0])
        context, _ = self._contexts[number]
        context.step = attempt.outcome.steps
        committed = attempt.committed(spaces_of(slot)[1])
        if committed is not None:
            context.delay, context.committed = len(committed), committed
        return context
