"""A number is all that is known of the task until its first episode is drawn."""

import gymnasium as gym
import numpy as np

COLORS = ("red", "green", "blue")


class PickUp(gym.Env):
    observation_space = gym.spaces.Box(0, 2, (1,), np.int64)
    action_space = gym.spaces.Discrete(3)
    _max_episode_steps = 5
    task_description = "0"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cube = int(self.np_random.integers(3))
        self.task_description = f"Pick up the {COLORS[self.cube]} cube."
        return np.array([self.cube]), {}

    def step(self, action):
        right = int(action) == self.cube
        return np.array([self.cube]), float(right), right, False, {"is_success": right}


def make_env(n_envs=1, use_async_envs=False):
    return {"cubes": {"0": PickUp}}
