"""Six numbered tasks; each env that is made or closed leaves a line in a file."""

import os
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counting(gym.Env):
    observation_space = spaces.Box(0, 1000, (1,), np.int64)
    action_space = spaces.Discrete(2)
    max_steps = 4

    def __init__(self, number, log, broken):
        self.number, self.log = number, log
        self.task = f"count to {number}"
        self.note("make")
        if number == broken:
            raise ValueError(f"no scene {number}")

    def note(self, what):
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{what} {self.number} {os.getpid()}\n")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([self.count]), {}

    def step(self, action):
        self.count += 1
        return np.array([self.count]), 1.0, False, False, {"is_success": self.count > 2}

    def close(self):
        self.note("close")


def make_env(n_envs=1, use_async_envs=False, log="", broken=-1):
    tasks = {number: (lambda n=number: Counting(n, log, broken)) for number in range(6)}
    return {"count": tasks}
