"""A benchmark that declares itself, with what env files do besides: siblings, data, dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import envhub

from .counting import Counting  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envhub import Task


@dataclass(frozen=True)
class Row:
    name: str
    goal: int


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[envhub.Benchmark]:
    tasks = tuple(
        envhub.Task(row.name, f"count to {row.goal}", horizon=2 * row.goal, args={"goal": row.goal})
        for row in rows()
    )
    yield envhub.Benchmark(
        name="counting",
        make=":make",
        suites={"small": tasks[:2], "all": tasks},
        default=("small",),
        episodes=3,
    )


def make(task: Task, start: int = 0) -> Counting:
    return Counting(int(task.args["goal"]), start)


def rows() -> list[Row]:
    lines = Path(__file__).with_name("goals.txt").read_text(encoding="utf-8").splitlines()
    return [Row(name, int(goal)) for name, goal in map(str.split, lines)]
