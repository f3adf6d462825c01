"""The runners of an engine: which one a slot belongs to, and what their policy says of itself.

Where the policy runs is known once it is made, so the first runners may be replaced then. The
conventions, remarks, outliers and durations of its calls are kept here for the run.
"""

import time
from collections.abc import Sequence

from envhub.errors import RunAborted
from envhub.evaluation.agreement import Agreement, OutlierLog, agree, remark_on
from envhub.evaluation.events import ActionsReady, Event, PolicyRunner
from envhub.evaluation.job import Job
from envhub.evaluation.pacing import OneRowCalls
from envhub.evaluation.policy_runners import (
    WorkerRunner,
    close_runners,
    make_process_runners,
    make_runners,
)
from envhub.evaluation.process_runner import ProcessRunner
from envhub.evaluation.slot import Slot
from envhub.host.waiting import WorkerPoller
from envhub.results.latency import Latency
from envhub.types import PolicyFacts


class Findings:
    """What playing episodes has shown of the policy."""

    def __init__(self, job: Job) -> None:
        self.facts: PolicyFacts | None = None
        self.agreement: Agreement | None = None
        """The conventions of the benchmark and of the policy, once it is made."""
        self.remarks: tuple[str, ...] = ()
        self.hint: str | None = None
        """What is not compared, which --quiet leaves out."""
        """Sentences for the user about the policy."""
        self.about: dict[str, str] = {}
        """What a run is to record of the policy besides its facts: what has changed since."""
        self.latency = Latency()
        playing = job.plan.episodes if job.supply else job.episodes
        self.outliers = OutlierLog(job.plan.episodes, playing)
        self._job = job

    def compare_conventions(self, facts: PolicyFacts) -> None:
        """Compare what the policy declares with the benchmark.

        Raises:
            ConventionsDiffer: They differ; names both sides.
        """
        job = self._job
        self.agreement = agree(job.benchmark, facts, ignore=job.ignore_conventions)
        remark = remark_on(self.agreement, job.benchmark, own=job.in_worker)
        self.remark(*facts.remarks)
        if remark is not None and self.agreement.overridden:
            self.remark(remark)
        elif remark is not None:
            self.hint = remark

    def remark(self, *sentences: str) -> None:
        """Keep sentences for the user, each once: several processes of a policy say the same."""
        self.remarks = tuple(dict.fromkeys((*self.remarks, *sentences)))

    def tell_outlier(self) -> None:
        """Keep a sentence about the first outlier of the plan, once it is known."""
        remark = self.outliers.take_remark()
        if remark is not None:
            self.remark(remark)


class RunnerPool(Findings):
    """All runners: one, or one for each process of the policy."""

    def __init__(self, job: Job, poller: WorkerPoller) -> None:
        """Make the first runners.

        Args:
            job: The policy, and where it can run.
            poller: Watches the policy's processes.
        """
        super().__init__(job)
        self._one_row_calls = OneRowCalls()
        self._poller = poller
        self._runners = make_runners(job, poller)

    def of(self, slot: Slot) -> PolicyRunner:
        """Return the runner that a slot belongs to: no episode changes it."""
        return self._runners[slot.index % len(self._runners)]

    def pump(self) -> None:
        """Start the next work of every runner that should not wait for more slots."""
        for runner in self._runners:
            if not _holds_back(runner):
                runner.pump()

    def events(self) -> list[tuple[PolicyRunner, Event]]:
        """Return what came of that work: all of it at once, since an event may replace runners."""
        return [
            (runner, event) for runner in self._runners if (event := runner.event()) is not None
        ]

    def timeout(self) -> float:
        """Return the seconds to wait for the next event."""
        return min(
            runner.pacing.timeout(holding_back=_holds_back(runner)) for runner in self._runners
        )

    def take_facts(self, facts: PolicyFacts) -> Sequence[Slot]:
        """Compare conventions, and replace the runners if the policy declares another placement.

        Returns:
            Slots that waited for a policy of runners that are gone.

        Raises:
            RunAborted: The policy cannot play this benchmark, or is not the same for all tasks.
        """
        if self.facts is None or self.facts.conventions != facts.conventions:
            self.compare_conventions(facts)
        if self.facts is not None:
            if self.facts.placement != facts.placement:
                raise RunAborted("The policy's placement is not the same for all tasks.")
            return ()
        self.facts = facts
        runner = self._runners[0]
        if facts.placement == "process" and isinstance(runner, WorkerRunner):
            self._runners = make_process_runners(self._job, self._poller)
        elif facts.placement == "worker" and isinstance(runner, ProcessRunner) and self._job.shared:
            # Only without a sandbox and a runtime can workers run the user's policy.
            return self._move_into_workers()
        return ()

    def acted(self, runner: PolicyRunner, event: ActionsReady) -> None:
        """Note what calls of the policy took and reported, while their slots still wait."""
        self.latency.add(event.seconds / event.calls, event.calls)
        self.outliers.add(event.outliers)
        self.about |= event.about
        self.remark(*event.remarks)
        self.tell_outlier()
        facts = runner.facts(event.slots[0])
        if facts is not None and facts.batch == 1 and not facts.declares_batch:
            remark = self._one_row_calls.add(
                time.monotonic(), event.acting, len(runner.waiting), processes=len(self._runners)
            )
            self.remark(*(() if remark is None else (remark,)))

    def finished(self, number: int) -> None:
        """Note that an episode has a record."""
        self.outliers.ended(number)
        self.tell_outlier()
        for runner in self._runners:  # an attempt before may have been with another one
            runner.finished(number)

    def close(self) -> None:
        """Close the policy, in all its processes at once."""
        close_runners(self._runners, self._job.limits.close)

    def _move_into_workers(self) -> Sequence[Slot]:
        waiting = [slot for runner in self._runners for slot in runner.awaiting_policy]
        self.close()
        self._runners = [WorkerRunner(self._job)]
        return waiting


def _holds_back(runner: PolicyRunner) -> bool:
    """Whether to wait for more slots before the policy acts."""
    if runner.awaiting_policy or not runner.waiting:
        return False
    facts = runner.facts(runner.waiting[0])
    if facts is not None and facts.batch != "any" and len(runner.waiting) >= facts.batch:
        return False  # a call cannot take more
    return runner.pacing.holds_back(runner.seconds)
