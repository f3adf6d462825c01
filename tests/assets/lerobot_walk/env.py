"""A walk in the plane with a small picture, for checkpoints; it follows from seed and actions."""

import gymnasium as gym
import numpy as np

STEPS = 14


class Walk(gym.Env):
    _max_episode_steps = STEPS
    observation_space = gym.spaces.Dict(
        {
            "pixels": gym.spaces.Box(0, 255, (32, 32, 3), np.uint8),
            "agent_pos": gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
            "unread": gym.spaces.Box(-1, 1, (1,), np.float32),
        }
    )
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    task_description = "walk to the middle"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-1, 1, 4)
        return self._look(), {}

    def step(self, action):
        self._place[:2] += 0.1 * np.asarray(action, np.float64)
        self._place[2:] = 0.9 * self._place[2:] + 0.01 * self.np_random.normal(size=2)
        return self._look(), float(-np.abs(self._place).sum()), False, False, {"is_success": False}

    def _look(self):
        x, y = np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32))
        waves = [np.sin(3 * x + self._place[0]), np.cos(4 * y + self._place[1]), x * self._place[2]]
        pixels = np.clip(127 + 100 * np.stack(waves, axis=-1), 0, 255).astype(np.uint8)
        place = self._place.astype(np.float32)
        return {"pixels": pixels, "agent_pos": place, "unread": np.zeros(1, np.float32)}


def make_env(n_envs=1, use_async_envs=False):
    return Walk()
