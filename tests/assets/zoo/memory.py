"""Declares less memory than any process needs."""

from collections.abc import Iterable

import envhub
from envhub import Benchmark, Task

from .point import HORIZON, Point


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    task = Task("push", "push the point to the right", HORIZON)
    yield Benchmark(name="memory", make=":make", suites={"all": (task,)}, memory_mb=1)


def make(task: Task) -> Point:
    return Point()
