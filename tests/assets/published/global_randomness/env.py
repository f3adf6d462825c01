"""Draws as tutorials do: from the generators of the process, and never from its own."""

import random

import gymnasium as gym
import numpy as np


class Guess(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (3,), np.float64)
    action_space = gym.spaces.Discrete(2)
    task = "Guess the coin."
    _max_episode_steps = 10

    def reset(self, seed=None, options=None):
        return np.random.rand(3), {}

    def step(self, action):
        coin = random.randint(0, 1)
        reward = float(coin == action) + np.random.normal()
        return np.random.rand(3), reward, random.random() < 0.1, False, {"is_success": coin == 1}


def make_env(n_envs=1, use_async_envs=False):
    return gym.vector.SyncVectorEnv([Guess for _ in range(n_envs)])
