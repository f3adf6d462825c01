"""The same, in envs that are worth nothing after their first episode."""

import envhub
from envhub import Benchmark

from .env import TASKS, Noted  # noqa: TID252


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark(
        "rebuilt", ":make", {"all": TASKS[:3]}, episodes=3, memory_mb=64, reuse="rebuild"
    )


class Worn(Noted):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward * self.resets, *rest


def make(task, log="", picture="rgb"):
    return Worn(task, log, picture)
