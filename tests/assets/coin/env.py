"""Episodes of two steps, which succeed by chance and by their seed: no policy changes that."""

import time

import gymnasium as gym
import numpy as np

import envhub

RATES = {"fair-1": 0.95, "fair-2": 0.93, "poor-1": 0.5, "poor-2": 0.4}


@envhub.hookimpl
def envhub_benchmarks():
    tasks = {name: envhub.Task(name, "win", horizon=4) for name in RATES}
    suites = {
        suite: tuple(task for name, task in tasks.items() if name.startswith(suite))
        for suite in ("fair", "poor")
    }
    yield envhub.Benchmark("coin", ":Coin", suites, episodes=2, memory_mb=64)


class Coin(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, task, seconds=0.0, common=False):
        self.rate, self.seconds = RATES[task.name], seconds
        # Unless it is common, each task has its own luck, whatever the seeding.
        self.luck = 0 if common else sum(map(ord, task.name))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=None if seed is None else seed + 1000 * self.luck)
        self.wins = bool(self.np_random.random() < self.rate)
        self.steps = 0
        return self.np_random.random(1, dtype=np.float32), {}

    def step(self, action):
        time.sleep(self.seconds)
        self.steps += 1
        info = {"is_success": self.wins and self.steps == 2}
        return np.zeros(1, np.float32), 0.0, self.steps == 2, False, info
