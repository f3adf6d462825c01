"""Reads a file by its path from the repository's own directory."""

import json

import gymnasium as gym
import numpy as np

with open("assets/scene.json", encoding="utf-8") as file:
    SCENE = json.load(file)


class Slide(gym.Env):
    observation_space = gym.spaces.Box(-99, 99, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    _max_episode_steps = SCENE["steps"]
    task_description = SCENE["instruction"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        with open("assets/friction.txt", encoding="utf-8") as file:
            self.friction = float(file.read())
        self.place = np.float32(self.np_random.uniform(-1, 1))
        return np.array([self.place]), {}

    def step(self, action):
        self.place += np.float32(self.friction) * action[0]
        there = bool(abs(self.place - SCENE["goal"]) < 0.2)
        return np.array([self.place]), float(self.place), there, False, {"is_success": there}


def make_env(n_envs=1, use_async_envs=False):
    return Slide()
