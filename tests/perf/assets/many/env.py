"""Many tasks of very short episodes."""

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task


class Short(gym.Env[np.ndarray, np.ndarray]):
    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._blank = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self._blank, {}

    def step(self, action: np.ndarray):
        return self._blank, 0.5, False, False, {"is_success": False}


def make(task: Task) -> Short:
    return Short()


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    tasks = tuple(Task(f"task-{n}", "be short", 5) for n in range(100))
    return [Benchmark("many", ":make", {"many": tasks}, memory_mb=64)]
