"""An env that counts its steps."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counting(gym.Env):
    observation_space = spaces.Box(0, 1000, (1,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, goal, start=0):
        self.goal = goal
        self.start = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = self.start
        return np.array([self.count]), {}

    def step(self, action):
        self.count += int(action)
        done = self.count >= self.goal
        return np.array([self.count]), float(action), done, False, {"is_success": done}
