"""A model of `--cluster`: 100,000 episodes on 1 to 1,000 nodes, with measured costs of the driver.

Events are simulated, not processes. The queue is EnvHub's own `Schedule`, and the constants of
leases and polling are the driver's own. What an exchange and a record cost the driver is measured
by `tests/perf/cluster.py`. A node's workers play what they were leased, one after another; a worker
that changes its task makes an env first. `--plot FILE.svg` draws what `docs/scale.md` shows.
"""

import argparse
import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from envhub_cluster.driver import MOST, wait_among, work_of
from measure import report

from envhub.evaluation.schedule import Schedule
from envhub.records import Episode

EPISODES, TASKS = 100_000, 100
WORKERS = 8
"""Of each node."""
MAKING = 5.0
"""Seconds to make an env, as of LIBERO."""
EXCHANGE, RECORD = 1.5e-3, 0.7e-3
"""Seconds of the driver's processor for an exchange, and for a record (tests/perf/cluster.py)."""
PATH = 1e-3
"""Seconds of a message's way."""
NODES = (1, 3, 10, 30, 100, 300, 1000)
SIZES = {"episodes of 20 s": 20.0, "episodes of 2 s": 2.0}
NOTICED = 12.0
"""Seconds until a lost node is noticed that does not close its connection."""


@dataclass(slots=True)
class Lane:
    """A worker of a node."""

    task: str | None = None
    held: deque[tuple[float, Episode]] = field(default_factory=deque)
    """When each of its episodes will have ended."""
    free: float = 0.0
    open: str | None = None
    busy: float = 0.0


@dataclass(slots=True)
class Result:
    """What came of one simulation."""

    seconds: float
    idle: float
    """The share of the workers' time without an episode or an env to make."""
    tail: float
    """Seconds from the first worker that found nothing to do, to the end."""
    driver: float
    """The share of the time in which the driver works."""
    exchanges: float
    records: float
    """Per second, on average."""
    delay: float
    """The 99th percentile of the seconds that a node waited for the driver."""
    back: int
    """The episodes that a lost node held."""
    lost: float
    """Seconds of its work that are done again, or that nobody does until it is noticed."""


class Model:
    """One evaluation."""

    def __init__(self, nodes: int, mean: float, *, lost: bool = False) -> None:
        self.chance = random.Random(nodes)
        self.mean = mean
        episodes = [
            Episode(n, "s", f"t{n * TASKS // EPISODES}", n, n, None) for n in range(EPISODES)
        ]
        self.schedule = Schedule(episodes, nodes * WORKERS)
        self.lanes = [[Lane() for _ in range(WORKERS)] for _ in range(nodes)]
        self.wait = wait_among(nodes)
        self.left, self.driver_free, self.driver_busy = EPISODES, 0.0, 0.0
        self.exchanges, self.delays, self.first_idle = 0, [], math.inf
        self.end, self.back, self.lost = 0.0, 0, 0.0
        self.lost_at = EPISODES * mean / (nodes * WORKERS) / 2 if lost else math.inf

    def run(self) -> Result:
        """Simulate."""
        events = [(self.chance.uniform(0, self.wait), node) for node in range(len(self.lanes))]
        heapq.heapify(events)
        while self.left:
            now, node = heapq.heappop(events)
            if node == 0 and now >= self.lost_at and len(self.lanes) > 1:
                self._lose(now)
                self.lost_at = math.inf
                continue
            heapq.heappush(events, (self._exchange(now, node), node))
        workers = sum(len(lanes) for lanes in self.lanes)
        busy = sum(lane.busy for lanes in self.lanes for lane in lanes)
        self.delays.sort()
        return Result(
            seconds=self.end,
            idle=1 - busy / (self.end * workers),
            tail=max(0.0, self.end - self.first_idle),
            driver=self.driver_busy / self.end,
            exchanges=self.exchanges / self.end,
            records=EPISODES / self.end,
            delay=self.delays[int(0.99 * len(self.delays))],
            back=self.back,
            lost=self.lost,
        )

    def _exchange(self, now: float, node: int) -> float:
        """Handle a node's answer; returns when its next one arrives."""
        lanes, played = self.lanes[node], 0
        for lane in lanes:
            while lane.held and lane.held[0][0] <= now:
                self.end = max(self.end, lane.held.popleft()[0])
                played += 1
        self.left -= played
        begun = max(now, self.driver_free)
        cost = EXCHANGE + played * RECORD
        self.driver_free, self.driver_busy = begun + cost, self.driver_busy + cost
        self.exchanges += 1
        self.delays.append(begun - now)
        arrives = begun + cost + PATH
        most = 2 * self._size()
        for lane in lanes:
            while len(lane.held) < most and (episode := self.schedule.take(lane.task)):
                self._give(lane, episode, arrives)
        return self._next(lanes, arrives)

    def _next(self, lanes: list[Lane], now: float) -> float:
        """Return when a node's next answer with records arrives; those without only cost."""
        ends = min((lane.held[0][0] for lane in lanes if lane.held), default=math.inf)
        if ends == math.inf:
            return now + self.wait + PATH
        turn = self.wait + 2 * PATH + EXCHANGE
        empty = max(0, int((ends - now) / turn))
        self.exchanges += empty
        self.driver_busy += empty * EXCHANGE
        return now + (empty + 1) * turn - PATH - EXCHANGE

    def _give(self, lane: Lane, episode: Episode, at: float) -> None:
        lane.task = episode.task
        if at > lane.free > 0 and not self.schedule.left:
            self.first_idle = min(self.first_idle, lane.free)
        takes = self.chance.lognormvariate(math.log(self.mean) - 0.125, 0.5)
        if lane.open != episode.task:
            takes += MAKING
            lane.open = episode.task
        lane.free = max(lane.free, at) + takes
        lane.busy += takes
        lane.held.append((lane.free, episode))

    def _lose(self, now: float) -> None:
        """Give what the first node holds to others, once that is noticed."""
        for lane in self.lanes[0]:
            self.schedule.release(lane.task)
            if lane.held:  # the first is under way: on average half of it is done
                self.lost += self.mean / 2 + NOTICED
            for _, episode in reversed(lane.held):
                self.back += 1
                self.schedule.put_back(episode)
            lane.held.clear()
        self.schedule.add((), WORKERS)
        self.driver_free = max(self.driver_free, now + EXCHANGE)

    def _size(self) -> int:
        left = self.schedule.left // (2 * len(self.lanes) * WORKERS)
        return int(max(1, min(MOST, work_of(len(self.lanes)) / self.mean, left)))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    lines: dict[str, list[Result]] = {}
    for name, mean in SIZES.items():
        rows = []
        for nodes in NODES:
            found = Model(nodes, mean).run()
            lost = Model(nodes, mean, lost=True).run() if nodes > 1 else found
            lines.setdefault(name, []).append(found)
            rows.append(
                {
                    "nodes": nodes,
                    "hours": found.seconds / 3600,
                    "idle %": 100 * found.idle,
                    "tail s": found.tail,
                    "driver %": 100 * found.driver,
                    "exchanges/s": found.exchanges,
                    "records/s": found.records,
                    "delay ms (99 %)": 1e3 * found.delay,
                    "a lost node: episodes back": lost.back,
                    "s of work": lost.lost,
                }
            )
        report(f"100,000 {name}, {WORKERS} workers per node", rows, json=options.json)
    if options.plot:
        options.plot.write_text(draw(lines))


COLORS = ("#1b7f5c", "#b3401c")


def draw(lines: dict[str, list[Result]]) -> str:
    """Return a plot of the workers' idle time and the driver's load over the number of nodes."""
    parts = [
        _panel(lines, 60, "workers idle, %", "idle"),
        _panel(lines, 420, "driver, %", "driver"),
    ]
    legend = "".join(
        f'<rect x="{60 + 180 * i}" y="278" width="12" height="12" fill="{COLORS[i]}"/>'
        f'<text x="{78 + 180 * i}" y="289">{name}</text>'
        for i, name in enumerate(lines)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 300" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="Idle time of workers and load of the driver, for 1 '
        f'to 1,000 nodes"><rect width="760" height="300" fill="#fff"/>{"".join(parts)}{legend}'
        "</svg>\n"
    )


def _panel(lines: dict[str, list[Result]], left: int, title: str, name: str) -> str:
    def x(nodes: int) -> float:
        return left + 300 * math.log10(nodes) / 3

    def y(share: float) -> float:
        return 230 - 190 * min(1.0, share)

    grid = "".join(
        f'<line x1="{left}" x2="{left + 300}" y1="{y(s)}" y2="{y(s)}" stroke="#ccc"/>'
        f'<text x="{left - 6}" y="{y(s) + 4}" text-anchor="end">{s * 100:.0f}</text>'
        for s in (0, 0.25, 0.5, 0.75, 1)
    )
    ticks = "".join(
        f'<text x="{x(n)}" y="248" text-anchor="middle">{n:,}</text>' for n in (1, 10, 100, 1000)
    )
    curves = ""
    for color, results in zip(COLORS, lines.values(), strict=True):
        shown = [(x(n), y(getattr(r, name))) for n, r in zip(NODES, results, strict=True)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in shown)
        curves += f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
        curves += "".join(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in shown
        )
    label = f'<text x="{left + 150}" y="266" text-anchor="middle">nodes</text>'
    return f'<text x="{left}" y="24" font-weight="bold">{title}</text>{grid}{ticks}{label}{curves}'


if __name__ == "__main__":
    main()
