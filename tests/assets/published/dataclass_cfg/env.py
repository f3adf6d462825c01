"""A `cfg` that is a dataclass with another one in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np


@dataclass
class Goal:
    position: tuple[float, float] = (0.0, 0.0)
    radius: float = 0.5


@dataclass
class Config:
    steps: int
    task: str = "Reach the goal."
    goal: Goal = field(default_factory=Goal)


class Reach(gym.Env):
    observation_space = gym.spaces.Box(-99, 99, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float64)

    def __init__(self, cfg: Config):
        self.goal, self.task, self._max_episode_steps = cfg.goal, cfg.task, cfg.steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2)
        return self.position, {}

    def step(self, action):
        self.position = self.position + action
        distance = float(np.linalg.norm(self.position - np.array(self.goal.position)))
        return self.position, -distance, False, False, {"success": distance < self.goal.radius}


def make_env(n_envs: int = 1, use_async_envs: bool = False, cfg: Config | None = None):
    return {"reach": [lambda: Reach(cfg or Config(50))] * n_envs}
