"""What the driver knows of a node: what it was leased, and what it has told."""

from dataclasses import dataclass, field
from typing import Any

from envhub.records import Episode, EpisodeRecord
from envhub.results.nodes import NodeLine
from envhub.run_info import LatencyInfo
from envhub_cluster.messages import Report
from envhub_cluster.ray_cluster import RayNode


@dataclass(slots=True)
class Lane:
    """A worker of a node: leases are counted for each, so that workers have different tasks."""

    task: str | None = None
    held: dict[int, Episode] = field(default_factory=dict)
    """The episodes that it was leased and has not played."""


@dataclass(slots=True, eq=False)
class Seat:
    """A node with an actor."""

    node: RayNode
    actor: Any
    asked: Any
    """What will be its next answer."""
    number: int
    lanes: list[Lane] = field(default_factory=list)
    line: NodeLine | None = None
    """How `run.json` is to name it; None until it is ready."""
    doing: str = "starting"
    played: int = 0
    steps: int = 0
    opened: int = 0
    latency: LatencyInfo | None = None
    ended: bool = False

    def take(self, report: Report, version: str) -> bool:
        """Note what a report says; returns whether it is the first."""
        first = self.line is None
        if first:
            self.lanes = [Lane() for _ in range(report.workers)]
            self.line = NodeLine(name=self.node.name, envhub=version, machine=report.machine)
        self.steps, self.opened, self.latency = report.steps, report.opened, report.latency
        self.ended = report.ended
        self.played += len(report.played)
        self.doing = f"{self.played} played; {', '.join(report.slots)}"
        return first

    def settle(self, record: EpisodeRecord) -> bool:
        """Take an episode from what is held; returns whether it was held, as it is planned."""
        for lane in self.lanes:
            held = lane.held.get(record.number)
            if held is not None and _is_of(record, held):
                del lane.held[record.number]
                return True
        return False

    @property
    def held(self) -> list[Episode]:
        """The episodes that it was leased and has not played."""
        return [episode for lane in self.lanes for episode in lane.held.values()]


def _is_of(record: EpisodeRecord, planned: Episode) -> bool:
    return (
        record.suite == planned.suite
        and record.task == planned.task
        and record.episode == planned.index
        and record.seed == planned.seed
        and record.init_state == planned.init_state
    )
