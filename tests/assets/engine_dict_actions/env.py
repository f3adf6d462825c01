"""Acts in a mapping."""

import gymnasium as gym
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("both", "use both hands", horizon=3)
    yield envhub.Benchmark(name="dict-actions", make=":Both", suites={"both": (task,)})


class Both(gym.Env):
    observation_space = spaces.Discrete(2)
    action_space = spaces.Dict({"left": spaces.Discrete(2), "right": spaces.Discrete(2)})

    def __init__(self, task):
        self.task = task
