"""Imports its simulator to be listed."""

from collections.abc import Iterable

import sapien  # noqa: F401 - the file beside this one

import envhub
from envhub import Benchmark, Task

from .point import HORIZON, Point


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    task = Task("push", "push the point to the right", HORIZON)
    yield Benchmark(name="listing", make=":make", suites={"all": (task,)})


def make(task: Task) -> Point:
    return Point()
