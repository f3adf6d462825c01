"""A thousand tasks."""

import gymnasium as gym

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(envhub.Task(f"task-{index}", "balance", horizon=500) for index in range(1000))
    yield envhub.Benchmark(name="many", make=":make", suites={"all-of-them": tasks})


def make(task):
    return gym.make("CartPole-v1")
