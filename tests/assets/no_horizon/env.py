"""An env that says nowhere how long an episode is."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Endless(gym.Env):
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def make_env(n_envs=1, use_async_envs=False):
    return Endless()
