"""Success for a moment: reported after two steps, gone again when the env ends after four."""

from collections.abc import Iterable

import gymnasium as gym
import numpy as np

import envhub
from envhub import Benchmark, Task


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    tasks = tuple(
        Task(rule, f"win {rule}", horizon=10, success=rule, init_states=3)
        for rule in ("once", "at_end", "ever")
    )
    yield Benchmark("blink", ":make", {"rules": tasks})


class Blink(gym.Env):
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Dict(
        {
            "state": gym.spaces.Box(0, 9, (), np.int64),
            "pixels": gym.spaces.Dict({"top": gym.spaces.Box(0, 255, (4, 6, 3), np.uint8)}),
            "hint": gym.spaces.Text(9),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state, self._steps = options["init_state"], 0
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        return self._look(), 0.25, self._steps == 4, False, {"success": self._steps == 2}

    def _look(self):
        pixels = {"top": np.zeros((4, 6, 3), np.uint8)}
        return {"state": np.int64(self._state), "pixels": pixels, "hint": "blink"}


def make(task: Task) -> Blink:
    return Blink()
