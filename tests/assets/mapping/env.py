"""Suites whose tasks are numbers, the same ones in each suite."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

GOALS = {"near": (3, 5), "far": (30, 50)}


class Counting(gym.Env):
    observation_space = spaces.Box(0, 1000, (1,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, goal):
        self.goal = goal
        self.task_description = f"count to {goal}"
        self._max_episode_steps = 2 * goal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([self.count]), {}

    def step(self, action):
        self.count += int(action)
        done = self.count >= self.goal
        return np.array([self.count]), float(action), done, False, {"is_success": done}


def make_env(n_envs=1, use_async_envs=False):
    return {
        suite: {number: Counting(goal) for number, goal in enumerate(goals)}
        for suite, goals in GOALS.items()
    }
