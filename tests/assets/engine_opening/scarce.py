"""The same, with envs so large that no machine has the memory for two."""

import envhub

from .env import TASKS, Slow  # noqa: TID252

__all__ = ["Slow"]


@envhub.hookimpl
def envhub_benchmarks():
    yield envhub.Benchmark(
        name="scarce", make=":Slow", suites={"all": TASKS}, episodes=2, memory_mb=2**30
    )
