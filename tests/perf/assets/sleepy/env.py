"""An env whose steps take time but no work, with episodes of very different lengths."""

import time
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task

HORIZON = 280


def length_of(seed: int) -> int:
    """The step of success: N(110, 20) for 97 of 100 seeds, never for the others."""
    rng = np.random.default_rng(seed)
    drawn = int(np.clip(rng.normal(110.0, 20.0), 1, HORIZON))
    return drawn if rng.random() < 0.97 else HORIZON + 1


class Sleepy(gym.Env[np.ndarray, np.ndarray]):
    def __init__(self, ms: float = 10.0) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._seconds = ms / 1000.0
        self._blank = np.zeros(8, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._length = length_of(seed if seed is not None else 0)
        self._steps = 0
        return self._blank, {}

    def step(self, action: np.ndarray):
        time.sleep(self._seconds)
        self._steps += 1
        won = self._steps >= self._length
        return self._blank, float(won), won, self._steps >= HORIZON, {"is_success": won}


def make(task: Task, ms: float = 10.0) -> Sleepy:
    return Sleepy(ms)


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    return [Benchmark("sleepy", ":make", {"sleepy": (Task("sleepy", "wait", HORIZON),)})]
