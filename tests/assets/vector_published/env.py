"""The contract of published env files, as suites of numbered tasks."""

from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv


class Reach(gym.Env):
    """A point that has to come to a goal, seen by a camera."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}
    render_mode = "rgb_array"
    observation_space = spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "agent_pos": spaces.Box(-9, 9, (2,), np.float64),
        }
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    _max_episode_steps = 40

    def __init__(self, goal):
        self.goal = goal
        self.task_description = f"reach {goal}"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.position = self.np_random.uniform(-1, 1, 2) * (options or {}).get("spread", 1)
        return self._observe(), {"is_success": False}

    def step(self, action):
        self.steps += 1
        self.position = np.clip(self.position + 0.3 * action, -9, 9)
        distance = float(np.abs(self.position - self.goal).max())
        reached = distance < 0.3
        info = {"is_success": reached, "distance": np.float64(distance)}
        return self._observe(), -distance, reached, self.steps >= self._max_episode_steps, info

    def render(self):
        return np.full((8, 8, 3), int(abs(self.position[0]) * 20) % 256, np.uint8)

    def _observe(self):
        return {"pixels": self.render(), "agent_pos": self.position.copy()}


def make_env(n_envs=1, use_async_envs=False, cfg=None):
    def vector(goal):
        return SyncVectorEnv([lambda: Reach(goal)] * n_envs)

    return {"reach": {0: vector(1), 1: vector(2)}}
