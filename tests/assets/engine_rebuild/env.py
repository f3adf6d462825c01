"""An env that is worth nothing after its first episode, so that its benchmark asks for new ones."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    tasks = (envhub.Task("a", "wear it out", horizon=4), envhub.Task("b", "again", horizon=4))
    yield envhub.Benchmark(
        name="rebuild", make=":Worn", suites={"all": tasks}, episodes=3, reuse="rebuild"
    )


class Worn(gym.Env):
    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, task):
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(self.resets), False, False, {}
