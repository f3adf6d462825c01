"""Reads a file beside it by a relative path: when it is imported, made and reset."""

from pathlib import Path

import gymnasium as gym
import numpy as np

GOAL = Path("data/goal.txt")
AT_IMPORT = int(GOAL.read_text())


class Count(gym.Env):
    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    _max_episode_steps = 10

    def __init__(self):
        self.goal = int(GOAL.read_text())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = int(GOAL.read_text())
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        done = self.count == self.goal == AT_IMPORT
        return np.full(1, self.count, np.float32), 1.0, done, False, {"is_success": done}


def make_env(n_envs=1, use_async_envs=False):
    return Count()
