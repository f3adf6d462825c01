"""Every number is an array of one element, and the instruction is part of the observation."""

import gymnasium as gym
import numpy as np


class Words(gym.Space):
    """Texts of any kind."""

    def sample(self, mask=None, probability=None):
        return "wörds"

    def contains(self, x):
        return isinstance(x, str)


class Balance(gym.Env):
    observation_space = gym.spaces.Dict(
        {"angle": gym.spaces.Box(-9, 9, (1,), np.float32), "words": Words()}
    )
    action_space = gym.spaces.Discrete(2)
    task = "Keep the pole up."
    _max_episode_steps = 6

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = self.np_random.normal(size=1).astype(np.float32)
        return self._observe(), {}

    def step(self, action):
        self.angle = self.angle + np.float32(action - 0.5)
        fallen = np.abs(self.angle) > 1
        return self._observe(), self.angle, fallen, np.zeros(1, bool), {"is_success": ~fallen}

    def _observe(self):
        return {"angle": self.angle, "words": f"Lean {'left' if self.angle[0] > 0 else 'right'}."}


def make_env(n_envs=1, use_async_envs=False):
    return {"pole": [Balance] * n_envs}
