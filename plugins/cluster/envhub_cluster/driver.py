"""The driver: leases episodes to nodes, and records what they play.

It alone decides what is missing. What a lost node was leased goes back, and a record counts once:
when the node that sends it still holds its episode.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import asdict

import envhub
from envhub.errors import ContractError, ExitCode, NoNodePlays, UsageError
from envhub.evaluation.engine import OnRecord
from envhub.evaluation.job import Job, Progress
from envhub.evaluation.prepare import Prepared
from envhub.evaluation.runner_pool import Findings
from envhub.evaluation.schedule import Schedule
from envhub.offline import is_offline
from envhub.policies.kinds import InProgram
from envhub.results.latency import Latency
from envhub.results.nodes import NodeLog
from envhub.run_info import to_rows
from envhub.types import Outlier
from envhub_cluster.messages import (
    GENERATION,
    BadMessage,
    Begin,
    Exchange,
    Played,
    Preparing,
    Refused,
    Report,
    State,
    encode,
    read_arrays,
    read_state,
)
from envhub_cluster.parcels import pack_benchmark, pack_policy
from envhub_cluster.ray_cluster import Lost, RayCluster, RayNode
from envhub_cluster.seats import Seat

WAIT = 0.2
"""Seconds that a node waits for something to tell."""
WAIT_PER_NODE = 0.005
"""With many nodes they wait longer, so that polling takes a third of the driver's time at most: an
exchange takes it 1.5 milliseconds (docs/scale.md)."""
AHEAD = 2.0
"""Seconds of work of a lease, at least; each worker holds two."""
MOST = 64
"""Episodes of a lease."""
_SCAN = 1.0
"""Seconds between two looks for new nodes."""
_LOSSES = 3
"""After so many losses a node is left alone."""
_PATIENCE = 60.0
"""Seconds to wait for a node when all are lost."""
_CLOSE = 10.0
"""Seconds that nodes have to close their envs."""


def wait_among(nodes: int) -> float:
    """Return how many seconds a node waits for something to tell, if it is one of so many."""
    return max(WAIT, WAIT_PER_NODE * nodes)


def work_of(nodes: int) -> float:
    """Return the seconds of work of a lease: more than passes until the next exchange."""
    return max(AHEAD, 2 * wait_among(nodes))


class Cluster:
    """Plays evaluations on a Ray cluster: an `envhub.evaluation.request.Player`."""

    def __init__(self, address: str) -> None:
        """Connect; see `RayCluster`."""
        self._ray = RayCluster(address)
        if not self._ray.nodes():
            raise UsageError(f"--cluster {address}: none of its nodes has a core to play on.")

    def start(
        self, prepared: Prepared, job: Job, on_record: OnRecord, on_poll: Callable[[], None]
    ) -> "Driver":
        """Return what plays the episodes of a job on the cluster."""
        return Driver(self._ray, make_begin(prepared, job), prepared, job, on_record, on_poll)


def make_begin(prepared: Prepared, job: Job) -> Begin:
    """Return what nodes are sent of an evaluation.

    Raises:
        NoNodePlays: Something of it cannot be sent.
    """
    request, info = prepared.request, prepared.info
    if isinstance(prepared.policy, InProgram):
        raise NoNodePlays(
            "The policy is an object of this program, which cannot be sent to nodes: name it, as "
            "./policy.py or package.module:name."
        )
    if request.workers == 0:
        raise NoNodePlays("--workers 0 plays in this process, and --cluster on nodes: choose one.")
    for name, value in request.options.env_vars.items():
        if os.environ.get(name) != value:
            raise NoNodePlays(
                f"--env-var {name}: a value on the command line does not go to nodes, where others "
                f"could read it. Set {name} here and on every node, and give --env-var {name}."
            )
    processes = request.policy_processes
    return Begin(
        generation=GENERATION,
        envhub=envhub.__version__,
        run=info.to_json(),
        benchmark=pack_benchmark(job.spec.source, info.benchmark),
        policy=pack_policy(prepared.policy, info.policy),
        workers=request.workers,
        policy_processes=1 if processes == "auto" else processes,
        all_devices=processes == "auto",
        max_errors=request.max_errors,
        worked=job.worked,
        offline=is_offline(),
    )


class Driver:
    """Plays the episodes of one job, once: an `envhub.evaluation.request.Playing`."""

    def __init__(
        self,
        ray: RayCluster,
        begin: Begin,
        prepared: Prepared,
        job: Job,
        on_record: OnRecord,
        on_poll: Callable[[], None],
    ) -> None:
        """Prepare to play; nothing is started on any node."""
        self.progress = Progress()
        self.stopping = False
        self.findings = Findings(job)
        self._ray = ray
        self._begin = ray.share(encode(begin))
        self._workers = prepared.request.workers
        self._job = job
        self._on_record = on_record
        self._on_poll = on_poll
        self._schedule = Schedule(job.episodes, 0)
        self._unplayed = len(job.episodes)
        self._seats: list[Seat] = []
        self._finished: list[Seat] = []
        self._losses: dict[str, int] = {}
        self._refused: dict[str, Refused] = {}
        self._seconds = self._count = 0.0
        self._scanned = self._empty_since = -1e9
        assert job.logs is not None
        self._logs: Path = job.logs

    @property
    def waiting(self) -> int:
        """How many episodes no node was leased."""
        return self._schedule.left

    def run(self) -> None:
        """Play until every episode has a record, or until `stopping` has taken effect.

        Raises:
            NoNodePlays: No node of the cluster can play, or all are lost.
            ContractError: The benchmark or the policy fails on all nodes.
        """
        self._log = NodeLog(self._logs)
        try:
            while self._unplayed and not self.stopping:
                self._scan()
                self._exchange()
                self._on_poll()
            self._close()
        finally:
            for seat in self._seats:
                self._ray.end(seat.actor)
            for seat in (*self._seats, *self._finished):
                self.findings.latency.include(Latency(seat.latency))
            self._log.close()

    def _close(self) -> None:
        """Let nodes close their envs; while stopping, first finish the episodes under way."""
        deadline = time.monotonic() + _CLOSE
        while any(not seat.ended and seat.line is not None for seat in self._seats):
            if not self.stopping and time.monotonic() > deadline:
                return
            self._exchange()
            self._on_poll()

    # Nodes

    def _scan(self) -> None:
        """Start an actor on every node that has none."""
        now = time.monotonic()
        if now - self._scanned < _SCAN:
            return
        self._scanned = now
        taken = {seat.node.id for seat in self._seats}
        for node in self._ray.nodes():
            given_up = node.id in self._refused or self._losses.get(node.id, 0) >= _LOSSES
            if node.id not in taken and not given_up:
                self._seat(node)
        if self._seats:
            self._empty_since = now
            return
        if self._refused or now - self._empty_since > _PATIENCE:
            raise self._nobody()

    def _seat(self, node: RayNode) -> None:
        cores = node.cores if self._workers is None else min(node.cores, self._workers)
        actor = self._ray.start(node, self._begin, cores)
        number = len(self._seats) + len(self._finished)
        seat = Seat(node, actor, None, number)
        self._ask(seat)
        self._seats.append(seat)
        self._show(seat)

    def _nobody(self) -> ContractError | NoNodePlays:
        if not self._refused:
            return NoNodePlays(
                f"All nodes of the cluster are lost, with {self._unplayed} episodes unplayed. All "
                "records so far are complete: start nodes, and resume the run with --cluster."
            )
        reasons = [refused.reason for refused in self._refused.values()]
        text = f"No node of the cluster plays this run. {_said(self._refused)}"
        if all(refused.code == ExitCode.CONTRACT for refused in self._refused.values()):
            return ContractError(reasons[0])
        return NoNodePlays(text)

    def _leave(self, seat: Seat) -> None:
        """Take back what a node was leased."""
        self._seats.remove(seat)
        self._finished.append(seat)
        self.progress.slots.pop(seat.number, None)
        for lane in seat.lanes:
            self._schedule.release(lane.task)
        for episode in sorted(seat.held, key=lambda each: -each.number):
            self._schedule.put_back(episode)
        self._schedule.add((), len(seat.lanes))
        seat.lanes = []

    def _lose(self, seat: Seat, lost: Lost) -> None:
        held = len(seat.held)
        self._leave(seat)
        if not lost.began:
            self._refuse(seat, Refused(reason=lost.reason, code=int(ExitCode.USAGE)))
            return
        self._losses[seat.node.id] = self._losses.get(seat.node.id, 0) + 1
        self.findings.remark(
            f"Node {seat.node.name} is lost; {held} episodes that it held are played elsewhere."
        )

    def _refuse(self, seat: Seat, refused: Refused) -> None:
        self._refused[seat.node.id] = Refused(
            reason=f"{seat.node.name}: {refused.reason}", code=refused.code
        )
        self.findings.remark(f"Node {seat.node.name} does not play: {refused.reason}")

    # Messages

    def _exchange(self) -> None:
        """Take the answers that have come, and ask those nodes again."""
        asked = {seat.asked: seat for seat in self._seats}
        if not asked:
            time.sleep(WAIT)
            return
        for each, answer in self._ray.answers(list(asked), WAIT):
            self._on_answer(asked[each], answer)
            if asked[each] in self._seats:
                self._ask(asked[each])

    def _ask(self, seat: Seat) -> None:
        message = Exchange(
            leases=to_rows(self._lease(seat)),
            stop=self.stopping,
            end=not self._unplayed,
            wait=wait_among(len(self._seats)),
        )
        seat.asked = self._ray.ask(seat.actor, encode(message))

    def _on_answer(self, seat: Seat, answer: object) -> None:
        if isinstance(answer, Lost):
            self._lose(seat, answer)
            return
        try:
            self._on_state(seat, read_state(answer))
        except BadMessage as exc:
            self._dismiss(seat)
            self._refuse(seat, Refused(reason=f"{exc}", code=int(ExitCode.CONTRACT)))

    def _on_state(self, seat: Seat, state: State) -> None:
        match state:
            case Preparing():
                seat.doing = state.doing
                self._show(seat)
                if self.stopping:
                    self._dismiss(seat)
            case Refused():
                self._dismiss(seat)
                self._refuse(seat, state)
            case Report():
                self._on_report(seat, state)

    def _on_report(self, seat: Seat, report: Report) -> None:
        if seat.take(report, envhub.__version__):
            self._schedule.add((), len(seat.lanes))
        found = self.findings
        if report.facts is not None and found.facts is None:
            found.compare_conventions(report.facts)
            found.facts = report.facts
        found.about |= report.about
        found.remark(*report.remarks)
        found.outliers.add(Outlier(**asdict(each)) for each in report.outliers)
        for played in report.played:
            self._record(seat, played)
        self.progress.steps = sum(each.steps for each in (*self._seats, *self._finished))
        self.progress.opened = sum(each.opened for each in (*self._seats, *self._finished))
        self._show(seat)
        if report.ended:
            self._dismiss(seat)

    def _record(self, seat: Seat, played: Played) -> None:
        record, stored = played.record, read_arrays(played)
        if not seat.settle(record):
            raise BadMessage(f"it sent episode {record.number}, which it was not leased")
        assert seat.line is not None
        self._log.add(seat.line, record.number)
        self._unplayed -= 1
        self._seconds += record.seconds
        self._count += 1
        self.progress.done += 1
        self.findings.outliers.ended(record.number)
        self.findings.tell_outlier()
        self._on_record(record, stored.actions, stored.steps)

    def _dismiss(self, seat: Seat) -> None:
        self._leave(seat)
        self._ray.end(seat.actor)

    def _show(self, seat: Seat) -> None:
        self.progress.slots[seat.number] = f"{seat.node.name}: {seat.doing}"

    # Leases

    def _lease(self, seat: Seat) -> list[int]:
        """Take episodes for a node, so that each of its workers holds two leases."""
        if self.stopping:
            return []
        taken: list[int] = []
        for lane in seat.lanes:
            most = 2 * self._size()
            while len(lane.held) < most:
                episode = self._schedule.take(lane.task)
                if episode is None:
                    break
                lane.task = episode.task
                lane.held[episode.number] = episode
                taken.append(episode.number)
        return taken

    def _size(self) -> int:
        """Return the episodes of a lease: fewer towards the end, so that all nodes end together."""
        lanes = sum(len(seat.lanes) for seat in self._seats)
        left = self._schedule.left // (2 * max(1, lanes))
        if not self._count:
            return max(1, min(2, left))
        mean = max(1e-3, self._seconds / self._count)
        return int(max(1, min(MOST, work_of(len(self._seats)) / mean, left)))


def _said(refused: dict[str, Refused]) -> str:
    shown = [each.reason for each in refused.values()]
    more = f" Nor do {len(shown) - 3} more." if shown[3:] else ""
    return " ".join(reason if reason.endswith(".") else f"{reason}." for reason in shown[:3]) + more
