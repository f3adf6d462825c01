"""A zoo: each task breaks exactly the rule that it is named after; those called good break none."""

from collections.abc import Iterable
from functools import cache

import envhub
from envhub import Benchmark, Task

from . import flaws
from .point import HORIZON, Point

GOOD = {"good": Point, "good-ending": flaws.Ending, "good-context": flaws.FreedContext}
SENTENCE = "push the point to the right"
DESCRIPTIONS = {"instruction-present": "", "instruction-sentence": "push_point"}


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    names = (*GOOD, *flaws.FLAWS, *DESCRIPTIONS)
    yield Benchmark(
        name="zoo",
        make=":make",
        suites={"all": tuple(map(_task, names))},
        spaces=":spaces_of",
        policies={"expert": ":make_expert"},
    )


def _task(name: str) -> Task:
    return Task(name, DESCRIPTIONS.get(name, SENTENCE), HORIZON)


def make(task: Task) -> Point:
    return {**GOOD, **flaws.FLAWS}.get(task.name, Point)()


def spaces_of(task: Task):
    shown = Point if task.name == "spaces-declared" else type(make_quietly(task.name))
    return _spaces(shown)


def make_quietly(name: str) -> Point:
    kind = {**GOOD, **flaws.FLAWS}.get(name, Point)
    return kind.__new__(kind)


@cache
def _spaces(kind: type[Point]):
    return kind.observation_space, kind.action_space


class Expert:
    placement = "worker"
    needs = frozenset()

    def act(self, obs, episodes):
        import numpy as np

        return np.ones((len(episodes), 1), np.float32)


def make_expert(benchmark, observation_space, action_space) -> Expert:
    return Expert()
