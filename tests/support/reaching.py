"""Small envs, and things that only look like envs."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv


class Reach(gym.Env):
    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(3)

    def __init__(self):
        self.closings = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.ones(2, np.float32), 1.0, False, False, {}

    def close(self):
        self.closings += 1


class Batched(VectorEnv):
    """A simulator that batches by itself."""

    single_observation_space = Reach.observation_space
    single_action_space = Reach.action_space

    def __init__(self, n):
        self.num_envs = n
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, n)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, n)

    def reset(self, *, seed=None, options=None):
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        flags = np.zeros(self.num_envs, bool)
        return np.ones((self.num_envs, 2), np.float32), np.ones(self.num_envs), flags, flags, {}


class QuacksLikeEnv:
    def reset(self): ...
    def step(self, action): ...


class QuacksLikeVectorEnv(QuacksLikeEnv):
    num_envs = 2
