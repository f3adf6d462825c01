"""An env that costs nothing but what is asked for, with observations as large as LIBERO's."""

import time
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task


class Free(gym.Env[dict[str, Any], np.ndarray]):
    def __init__(self, ms: float = 0.0) -> None:
        image = spaces.Box(0, 255, (256, 256, 3), np.uint8)
        state = spaces.Box(-np.inf, np.inf, (39,), np.float32)
        self.observation_space = spaces.Dict({"image": image, "image2": image, "state": state})
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._seconds = ms / 1000.0
        self._observation = {
            "image": np.full((256, 256, 3), 7, np.uint8),
            "image2": np.full((256, 256, 3), 9, np.uint8),
            "state": np.zeros(39, np.float32),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self._observation, {}

    def step(self, action: np.ndarray):
        if self._seconds:
            time.sleep(self._seconds)
        return self._observation, 0.0, False, False, {}


def make(task: Task, ms: float = 0.0) -> Free:
    return Free(ms)


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    task = Task("free", "do nothing", 1_000_000)
    return [Benchmark("free", ":make", {"free": (task,)})]
