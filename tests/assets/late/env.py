"""A line of steps whose env writes down every action that it is given, and every look."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task

from .counter import make_policy as make_policy  # noqa: TID252

HOLD = (0.0, 0.0, -1.0)


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark(
        name="late",
        make=":make",
        suites={"all": (Task("line", "count the steps", horizon=40),)},
        episodes=2,
        control_hz=20.0,
        hold=":hold",
        conventions=":conventions",
        policies={"counter": ":make_policy"},
        memory_mb=100,
    )


def conventions(control="ee_delta_position", gripper="positive_closes", **_others):
    return {"gripper": gripper, **({"control": control} if control else {})}


def hold(still="declared", **_others):
    return {"declared": HOLD, "none": (), "long": (*HOLD, 0.0)}[still]


class Line(gym.Env):
    observing = frozenset({"step"})

    def __init__(self, log):
        self.observation_space = spaces.Dict({"step": spaces.Box(0, 1000, (1,), np.float32)})
        self.action_space = spaces.Box(-1e6, 1e6, (3,), np.float32)
        self._log = log
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        self._note("reset", seed)
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        self._note("action", action.tolist())
        return self._look(), float(action[0]), False, False, {"is_success": self._steps == 39}

    def _look(self):
        if "step" in self.observing:
            self._note("look", self._steps)
        return {"step": np.array([self._steps], np.float32)}

    def _note(self, kind, value):
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(json.dumps([kind, value]) + "\n")


def make(task, log="", control="ee_delta_position", gripper="positive_closes", still="declared"):
    return Line(log)
