# /// script
# requires-python = ">=3.11"
# dependencies = ["isaacsim==3.3.0"]
# ///
"""A drawn point that is pushed; its floor and its contacts depend on the package `isaacsim`."""

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

import envhub
from envhub import Benchmark, Task

try:
    import isaacsim

    NEW = isaacsim.VERSION != "3.3.0"
except ModuleNotFoundError:  # where the tests run without a runtime
    NEW = False

FLOOR = 90 if NEW else 130
WALL = 0.05


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    tasks = tuple(
        Task(
            name=name, description=f"push the point to the {name}", horizon=20, args={"hard": hard}
        )
        for name, hard in (("floor", True), ("table", False))
    )
    yield Benchmark(
        name="explained",
        make=":make",
        suites={"on_floor": tasks[:1], "on_table": tasks[1:]},
        episodes=3,
        control_hz=10.0,
        hold=(0.0, 0.0),
        memory_mb=256,
    )


def make(task: Task, size: int = 16, friction: float = 0.0) -> "Push":
    return Push(size, friction, on_floor=bool(task.args["hard"]))


class Push(gym.Env[dict[str, Any], np.ndarray]):
    def __init__(self, size: int, friction: float, *, on_floor: bool) -> None:
        self.observation_space = gym.spaces.Dict(
            {
                "pixels": gym.spaces.Box(0, 255, (size, size, 3), np.uint8),
                "place": gym.spaces.Box(-9.0, 9.0, (2,), np.float64),
            }
        )
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._size, self._friction, self._on_floor = size, friction, on_floor
        self._place = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-0.2, -0.1, 2)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> Any:
        self._place = self._place + (0.05 - self._friction) * np.asarray(action, float)
        if NEW:
            self._place = self._place * (1.0 + 1e-15)  # other last bits
        if self._on_floor and self._place[0] > WALL:  # a contact
            self._place[0] = WALL - (0.01 if NEW else 0.0)
        reward = float(self._place[0])
        done = bool(self._place[1] > 0.2)
        return self._observe(), reward, False, False, {"is_success": done}

    def _observe(self) -> dict[str, Any]:
        floor = FLOOR if self._on_floor else 200
        picture = np.full((self._size, self._size, 3), floor, np.uint8)
        row, column = ((self._place + 1.0) / 2.0 * (self._size - 1)).astype(int).clip(0)
        picture[row, column] = (200, 30, 30)
        return {"pixels": picture, "place": self._place.copy()}
