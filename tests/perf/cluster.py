"""A Ray cluster of two nodes against one machine, on an env that sleeps.

Sleeping needs no core, so that two nodes on one machine are as fast as on two. Without start-up,
what counts is the time from the first record to the last. The driver's processor time is its own;
what it costs per episode is the difference of two runs, less what waiting costs, which a run of few
long episodes shows.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import report
from support.needs import cluster_python
from support.ray_clusters import ray_cluster

WALK = Path(__file__).parents[1] / "assets" / "run_walk"
STEPS = 20
"""Of an episode, whose policy never moves."""


@dataclass
class Timed:
    """A run."""

    whole: float
    """Seconds of the command."""
    playing: float
    """Seconds from the first record to the last."""
    cpu: float
    """Seconds of the command's own processor time, and of what it waited for."""
    episodes: int

    @property
    def rate(self) -> float:
        """Episodes per second, without start-up."""
        return (self.episodes - 1) / self.playing


def run(place: Path, episodes: int, pause: float, *options: str) -> Timed:
    """Run the command once."""
    out = place / f"run-{time.monotonic_ns()}"
    argv = [str(cluster_python()), "-m", "envhub", "eval", str(WALK), "--task", "far", "--quiet"]
    argv += ["--episodes", str(episodes), "--policy", "zero", "--env-arg", f"pause={pause}"]
    began = time.monotonic()
    command = subprocess.Popen(
        [*argv, "--out", str(out), *options], stdout=subprocess.DEVNULL, cwd=place
    )
    _, status, used = os.wait4(command.pid, 0)
    whole = time.monotonic() - began
    if status:
        raise SystemExit(f"the command failed: {status}")
    written = sorted(path.stat().st_mtime for path in (out / "actions").iterdir())
    assert len(written) == episodes
    return Timed(whole, written[-1] - written[0], used.ru_utime + used.ru_stime, episodes)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--episodes", type=int, default=160, help="of a second each")
    parser.add_argument("--many", type=int, default=2200, help="short episodes, for the driver")
    options = parser.parse_args()
    pause, one = 1.0 / STEPS, ("--workers", "1")
    with tempfile.TemporaryDirectory() as name, ray_cluster("one", "two") as nodes:
        place = Path(name)
        cluster = ("--cluster", nodes.address, *one)
        alone = run(place, options.episodes, pause, *one)
        two = run(place, options.episodes, pause, *cluster)
        local = run(place, options.episodes, pause, "--workers", "2")
        few = run(place, 200, 0.001, *cluster)
        many = run(place, options.many, 0.001, *cluster)
        waiting = run(place, 2, 40.0 / STEPS, *cluster)
        start = run(place, 2, 0.001, *cluster)
    idle = (waiting.cpu - start.cpu) / (waiting.whole - start.whole)
    rest = many.cpu - few.cpu - idle * (many.whole - few.whole)
    rows = [
        _row("two nodes against one machine, without start-up", two.rate / alone.rate, 1.85),
        _row("two nodes against one machine, with start-up", alone.whole / two.whole, 1.7),
        _row("two nodes against two local workers, without start-up", two.rate / local.rate, 0.9),
        _row("two nodes against two local workers, with start-up", local.whole / two.whole, None),
        _row("start-up of the cluster's run, seconds", two.whole - two.playing, None),
        _row("start-up of the local run, seconds", alone.whole - alone.playing, None),
        _row("driver, ms of processor per episode", 1e3 * rest / (options.many - 200), -2.0),
        _row("driver, start-up, ms of processor", 1e3 * start.cpu, None),
        _row("driver, ms of processor per second of waiting for two nodes", 1e3 * idle, None),
        _row("episodes per second of the short ones", many.rate, None),
    ]
    report("A Ray cluster of two nodes", rows, json=options.json)
    if any(row["met"] is False for row in rows):
        raise SystemExit(1)


def _row(what: str, value: float, bar: float | None) -> dict[str, object]:
    """A figure; a bar below zero is an upper one."""
    met = None if bar is None else (value <= -bar if bar < 0 else value >= bar)
    return {"what": what, "value": round(value, 3), "bar": abs(bar) if bar else "", "met": met}


if __name__ == "__main__":
    main()
