"""Envs that note when they are made and closed, and one whose making takes its time."""

import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub

SECONDS = 60.0
"""After so long, what an env waits for does not happen."""
PAUSE = 0.002
TASKS = tuple(
    envhub.Task(name, name, horizon=horizon)
    for name, horizon in {"first": 1, "second": int(SECONDS / PAUSE), "third": 1}.items()
)


@envhub.hookimpl
def envhub_benchmarks():
    yield envhub.Benchmark(name="opening", make=":Slow", suites={"all": TASKS}, episodes=1)


class Slow(gym.Env):
    """Every task ends after a step, unless `waiting`.

    Then `third` is made only while an episode of `second` goes on, and that episode goes on until
    then.
    """

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, task, log, waiting=False):
        self._name, self._log, self._waiting = task.name, Path(log), waiting
        self._note("making")
        if waiting and task.name == "third":
            self._wait_for("goes on second")
        self._note("made")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        ends = self._name != "second" or not self._waiting or "making third" in self._noted()
        if ends:
            self._note("goes on")
        time.sleep(PAUSE)
        return np.zeros(1, np.float32), 0.0, ends, False, {"is_success": ends}

    def close(self):
        self._note("closed")

    def _wait_for(self, text):
        ends = time.monotonic() + SECONDS
        while text not in self._noted():
            if time.monotonic() > ends:
                raise TimeoutError(f"never noted: {text}")
            time.sleep(PAUSE)

    def _noted(self):
        return self._log.read_text(encoding="utf-8").splitlines()

    def _note(self, what):
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{what} {self._name}\n")
