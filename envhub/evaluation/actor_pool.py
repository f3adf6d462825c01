"""The actors of an engine: which one a slot belongs to, and what their policy says of itself.

Where the policy runs is known once it is made, so the first actors may be replaced then. The
conventions, remarks, outliers and durations of its calls are kept here for the run.
"""

import time
from collections.abc import Sequence

from envhub.errors import RunAborted
from envhub.evaluation.actors import (
    Actor,
    InWorkerActor,
    close_actors,
    make_actors,
    make_process_actors,
)
from envhub.evaluation.agreement import Agreement, agree, remark_on
from envhub.evaluation.events import ActionsReady, Event
from envhub.evaluation.job import Job
from envhub.evaluation.outliers import OutlierLog
from envhub.evaluation.pacing import OneRowCalls
from envhub.evaluation.process_actor import ProcessActor
from envhub.evaluation.slot import Slot
from envhub.host.waiting import WorkerPoller
from envhub.results.latency import Latency
from envhub.types import PolicyFacts


class ActorPool:
    """All actors: one, or one for each process of the policy."""

    def __init__(self, job: Job, poller: WorkerPoller) -> None:
        """Make the first actors.

        Args:
            job: The policy, and where it can run.
            poller: Watches the policy's processes.
        """
        self.facts: PolicyFacts | None = None
        self.agreement: Agreement | None = None
        """The conventions of the benchmark and of the policy, once it is made."""
        self.remarks: tuple[str, ...] = ()
        """Sentences for the user about the policy."""
        self.about: dict[str, str] = {}
        """What a run is to record of the policy besides its facts: what has changed since."""
        self.latency = Latency()
        self.outliers = OutlierLog(job.plan.episodes, job.episodes)
        self._one_row_calls = OneRowCalls()
        self._job = job
        self._poller = poller
        self._actors = make_actors(job, poller)

    def of(self, slot: Slot) -> Actor:
        """Return the actor that a slot belongs to: no episode changes it."""
        return self._actors[slot.index % len(self._actors)]

    def pump(self) -> None:
        """Start the next work of every actor that should not wait for more slots."""
        for actor in self._actors:
            if not _holds_back(actor):
                actor.pump()

    def events(self) -> list[tuple[Actor, Event]]:
        """Return what came of that work: all of it at once, since an event may replace actors."""
        return [(actor, event) for actor in self._actors if (event := actor.event()) is not None]

    def timeout(self) -> float:
        """Return the seconds to wait for the next event."""
        return min(actor.pacing.timeout(holding_back=_holds_back(actor)) for actor in self._actors)

    def take_facts(self, facts: PolicyFacts) -> Sequence[Slot]:
        """Compare conventions, and replace the actors if the policy declares another placement.

        Returns:
            Slots that waited for a policy of actors that are gone.

        Raises:
            RunAborted: The policy cannot play this benchmark, or is not the same for all tasks.
        """
        if self.facts is None or self.facts.conventions != facts.conventions:
            self._compare_conventions(facts)
        if self.facts is not None:
            if self.facts.placement != facts.placement:
                raise RunAborted("The policy's placement is not the same for all tasks.")
            return ()
        self.facts = facts
        actor = self._actors[0]
        if facts.placement == "process" and isinstance(actor, InWorkerActor):
            self._actors = make_process_actors(self._job, self._poller)
        elif facts.placement == "worker" and isinstance(actor, ProcessActor) and self._job.shared:
            # Only without a sandbox and a runtime can workers run the user's policy.
            return self._move_into_workers()
        return ()

    def acted(self, actor: Actor, event: ActionsReady) -> None:
        """Note what calls of the policy took and reported, while their slots still wait."""
        self.latency.add(event.seconds / event.calls, event.calls)
        self.outliers.add(event.outliers)
        self.about |= event.about
        # Several processes of a policy say the same.
        self.remarks = tuple(dict.fromkeys((*self.remarks, *event.remarks)))
        self._tell_outlier()
        facts = actor.facts(event.slots[0])
        if facts is not None and facts.batch == 1 and not facts.declares_batch:
            remark = self._one_row_calls.add(
                time.monotonic(), event.acting, len(actor.waiting), processes=len(self._actors)
            )
            self.remarks += () if remark is None else (remark,)

    def finished(self, number: int) -> None:
        """Note that an episode has a record."""
        self.outliers.ended(number)
        self._tell_outlier()
        for actor in self._actors:  # an attempt before may have been with another one
            actor.finished(number)

    def close(self) -> None:
        """Close the policy, in all its processes at once."""
        close_actors(self._actors, self._job.limits.close)

    def _move_into_workers(self) -> Sequence[Slot]:
        waiting = [slot for actor in self._actors for slot in actor.awaiting_policy]
        self.close()
        self._actors = [InWorkerActor(self._job)]
        return waiting

    def _compare_conventions(self, facts: PolicyFacts) -> None:
        job = self._job
        self.agreement = agree(job.benchmark, facts, ignore=job.ignore_conventions)
        remark = remark_on(self.agreement, job.benchmark, own=job.in_worker)
        said = facts.remarks if remark is None else (*facts.remarks, remark)
        self.remarks = tuple(dict.fromkeys((*self.remarks, *said)))

    def _tell_outlier(self) -> None:
        remark = self.outliers.take_remark()
        if remark is not None:
            self.remarks += (remark,)


def _holds_back(actor: Actor) -> bool:
    """Whether to wait for more slots before the policy acts."""
    if actor.awaiting_policy or not actor.waiting:
        return False
    facts = actor.facts(actor.waiting[0])
    if facts is not None and facts.batch != "any" and len(actor.waiting) >= facts.batch:
        return False  # a call cannot take more
    return actor.pacing.holds_back(actor.seconds)
