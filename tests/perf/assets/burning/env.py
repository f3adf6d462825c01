"""An env that burns 1 ms of CPU a step, and 10 ms more for every frame that is looked at."""

import time
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task

HORIZON = 200


def burn(seconds: float) -> None:
    """CPU time, so that a busy machine changes the wall clock but not the work."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Burning(gym.Env[dict[str, Any], np.ndarray]):
    observing: frozenset[str] = frozenset({"pixels"})

    def __init__(self) -> None:
        self.observation_space = spaces.Dict({"pixels": spaces.Box(0, 255, (64, 64, 3), np.uint8)})
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.ndarray):
        burn(0.001)
        self._steps += 1
        return self._observe(), 1.0, False, self._steps >= HORIZON, {"is_success": False}

    def _observe(self) -> dict[str, Any]:
        if "pixels" in self.observing:
            burn(0.010)
        return {"pixels": np.full((64, 64, 3), self._steps % 256, np.uint8)}


def make(task: Task) -> Burning:
    return Burning()


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    return [Benchmark("burning", ":make", {"burning": (Task("burning", "burn", HORIZON),)})]
