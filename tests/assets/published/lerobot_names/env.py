"""Its observations carry the names that LeRobot's policies read."""

from typing import ClassVar

import gymnasium as gym
import numpy as np


class Push(gym.Env):
    observation_space = gym.spaces.Dict(
        {
            "observation.state": gym.spaces.Box(-9, 9, (2,), np.float32),
            "observation.images.front": gym.spaces.Box(0, 255, (8, 6, 3), np.uint8),
        }
    )
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"
    task_description = "Push the T onto the mark."
    _max_episode_steps = 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._observe(), {}

    def step(self, action):
        self.position = np.clip(self.position + action, -9, 9).astype(np.float32)
        far = float(np.abs(self.position).sum())
        return self._observe(), -far, False, False, {"is_success": far < 0.5}

    def render(self):
        return np.full((8, 6, 3), int(9 + self.position[0]), np.uint8)

    def _observe(self):
        return {"observation.state": self.position, "observation.images.front": self.render()}


def make_env(n_envs=1, use_async_envs=False):
    return gym.vector.SyncVectorEnv([Push] * n_envs)
