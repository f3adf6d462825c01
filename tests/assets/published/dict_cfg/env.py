"""A `cfg` that is read as a dict; `size` is a parameter of its own."""

import gymnasium as gym
import numpy as np


class Line(gym.Env):
    action_space = gym.spaces.Discrete(3)
    task = "Walk to the end of the line."

    def __init__(self, size, rewards, steps):
        self.observation_space = gym.spaces.Discrete(size)
        self.rewards, self._max_episode_steps = rewards, steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(self.observation_space.n))
        return self.place, {}

    def step(self, action):
        last = int(self.observation_space.n) - 1
        self.place = int(np.clip(self.place + int(action) - 1, 0, last))
        there = self.place == last
        return self.place, self.rewards[int(there)], there, False, {"is_success": there}


def make_env(n_envs=1, use_async_envs=False, size=5, cfg: dict | None = None):
    cfg = cfg or {"limits": {"steps": 50}}
    rewards = cfg.get("rewards", [0.0, 1.0])
    return {"line": lambda: Line(size, rewards, cfg["limits"]["steps"])}
