"""Envs whose every state is noted in a file, so that a replay can be compared bit by bit.

`log` is a directory: each episode appends a line with its states, in hexadecimal, to
`<task>.<seed>`. What the policy is shown is drawn only if somebody asks for it, and noted too.
"""

from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task

TASKS = (
    Task("at-end", "be there in the end", horizon=9, success="at_end"),
    Task("once", "go there", horizon=12),
    Task("states", "go there from a stored state", horizon=8, init_states=2),
    Task("turned", "go there backwards", horizon=12, args={"turned": True}),
)


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark("replayed", ":make", {"all": TASKS}, episodes=3, memory_mb=64, control_hz=8)


@envhub.hookimpl
def envhub_wrap_env(task):
    return Turned if task.args.get("turned") else None


class Turned(gym.ActionWrapper):
    """Turns every action around."""

    observing: frozenset[str]

    def action(self, action):
        return -action


class Noted(gym.Env):
    observation_space = spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            "gap": spaces.Box(-np.inf, np.inf, (1,), np.float64),
        }
    )
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    render_mode = "rgb_array"
    observing: frozenset[str] = frozenset({"pixels", "gap"})

    def __init__(self, task, log, picture):
        self.task, self.log, self.picture = task, log, picture
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        self.file = Path(self.log, f"{self.task.name}.{seed}") if self.log else None
        self.place = self.np_random.normal()
        if options:
            self.place += options["init_state"]
        self.note("\n")
        return self.observe(), {}

    def step(self, action):
        self.place += 0.2 * float(action[0]) + 0.01 * self.np_random.normal()
        self.note()
        near = abs(self.place) < 0.1
        return self.observe(), -abs(self.place), self.place > 3.0, False, {"is_success": near}

    def render(self):
        if self.picture == "none":
            return None
        if self.picture == "raises":
            raise RuntimeError("no light")
        frame = np.zeros((5, 7, 3), np.uint8)  # of odd sizes
        frame[0, :, 0] = np.frombuffer(np.float64(self.place).tobytes()[:7], np.uint8)
        frame[0, 0, 1] = np.float64(self.place).tobytes()[7]
        return frame

    def observe(self):
        if "pixels" in self.observing:
            self.write(" drawn")
        pixels = np.zeros((4, 4, 3), np.uint8)
        return {"pixels": pixels, "gap": np.array([self.place])}

    def note(self, before=""):
        self.write(f"{before} {self.place.hex()}")

    def write(self, text):
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(text)


def make(task, log="", picture="rgb"):
    return Noted(task, log, picture)
