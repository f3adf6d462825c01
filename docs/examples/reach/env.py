"""Reach: a point moves over a table to a goal. A complete benchmark in two small files.

Try it from the root of the repository:

    envhub info ./docs/examples/reach
"""

from collections.abc import Iterable

import envhub
from envhub import Benchmark, Task

from .table import Table


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    near = (_task("red", 0.3), _task("green", 0.3), _task("blue", 0.3))
    far = (_task("yellow", 0.8), _task("violet", 0.8))
    yield Benchmark(
        name="reach",
        make=":make",
        suites={"near": near, "far": far},
        episodes=10,
        control_hz=10.0,
        hold=(0.0, 0.0),
        memory_mb=256,
    )


def make(task: Task, size: int = 64) -> Table:
    """Make the env of a task; it draws nothing before its first observation."""
    return Table(float(task.args["distance"]), size)


def _task(color: str, distance: float) -> Task:
    return Task(
        name=f"reach-{color}",
        description=f"move the point to the {color} goal",
        horizon=60,
        args={"distance": distance},
    )
