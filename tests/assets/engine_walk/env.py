"""Walks over a plane, one task for each rule; faulty where its arguments say so."""

import os

import numpy as np

import envhub
from envhub import Benchmark, Task

from .faults import make_faulty  # noqa: TID252
from .walk import Sincere, Walk  # noqa: TID252

TASKS = (
    Task("once", "walk to the goal", horizon=30),
    Task("at-end", "be at the goal when time is up", horizon=15, success="at_end"),
    Task("ever", "come by the goal", horizon=50, success="ever"),
    Task("mute", "walk about", horizon=10, args={"mute": True}),
    Task("states", "walk from where you are put", horizon=8, init_states=3),
)


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark(
        name="walk",
        make=":make",
        suites={"walk": TASKS, "ends": TASKS[:2]},
        default=("walk",),
        episodes=3,
        policies={
            "guide": ":make_guide",
            "stuck": ":make_stuck",
            "no-guide": ":make_nothing",
            "fatal": ":make_dying",
        },
        lerobot=":convert",
        memory_mb=100,
    )


def make(task, nap=0.0, room="", always=False, **fault):
    if fault:
        return make_faulty(task, **fault)
    return Sincere(task, nap, room) if always else Walk(task, nap, room)


def convert(observation):
    """To LeRobot's format: all there is in one state."""
    state = np.concatenate([observation["agent_pos"], observation["goal"]], axis=-1)
    return {"observation.state": state}


class Guide:
    """A policy of the benchmark's own, beside the env."""

    placement = "worker"
    needs = frozenset({"agent_pos", "goal"})

    def act(self, obs, episodes):
        return (obs["goal"] - obs["agent_pos"]) * 5.0


class GuideOfItsOwn(Guide):
    placement = "process"


def make_guide(benchmark, observation_space, action_space, placement="worker"):
    return Guide() if placement == "worker" else GuideOfItsOwn()


def make_stuck(benchmark, observation_space, action_space):
    raise RuntimeError("the guide has lost its map")


def make_dying(benchmark, observation_space, action_space):
    os._exit(3)
