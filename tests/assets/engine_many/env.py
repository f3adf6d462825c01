"""Twenty tasks whose envs remember how often they were reset, and leave no trace of it."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(envhub.Task(f"t{n:02}", f"task {n}", horizon=3) for n in range(20))
    yield envhub.Benchmark(
        name="many",
        make=":Short",
        suites={"many": tasks},
        lerobot="no_such_module:convert",  # loaded for those who want it only
        memory_mb=100,
    )


class Short(gym.Env):
    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self, task):
        self.task = task

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return np.int64(1), float(action), False, False, {}
