"""What other files have as attributes, this one has as methods."""

import gymnasium as gym
import numpy as np


class Reach(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def task_description(self):
        return "Reach the red cube."

    def _max_episode_steps(self):
        return 6

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-2, 2, 2).astype(np.float32)
        return self.position, {}

    def step(self, action):
        self.position = self.position + np.asarray(action, np.float32)
        distance = float(np.linalg.norm(self.position))
        return self.position, -distance, False, False, {"is_success": distance < 1}


def make_env(n_envs=1, use_async_envs=False):
    return gym.vector.SyncVectorEnv([Reach] * n_envs)
