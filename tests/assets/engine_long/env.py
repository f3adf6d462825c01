"""One long episode, whose rewards count its steps."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("long", "go on", horizon=1234)
    yield envhub.Benchmark(
        name="long", make=":Long", suites={"long": (task,)}, episodes=1, policies={"guide": ":go"}
    )


def go(benchmark, observation_space, action_space):
    return Going()


class Going:
    placement = "worker"

    def act(self, obs, episodes):
        assert obs["agent_pos"][0, 0] == episodes[0].step
        return np.zeros((1, 2))


class Long(gym.Env):
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = spaces.Dict(
        {
            "pixels": spaces.Dict({"front": spaces.Box(0, 255, (2, 2, 3), np.uint8)}),
            "agent_pos": spaces.Box(0, 2000, (2,), np.float32),
            "goal": spaces.Box(0, 2000, (2,), np.float32),
            "hint": spaces.Text(9),
        }
    )

    def __init__(self, task):
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        return self.observe(), float(self.count), False, False, {}

    def observe(self):
        place = np.full(2, self.count, np.float32)
        camera = np.zeros((2, 2, 3), np.uint8)
        return {"pixels": {"front": camera}, "agent_pos": place, "goal": place, "hint": "on"}
