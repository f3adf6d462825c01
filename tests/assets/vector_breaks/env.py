"""An env that breaks its contract when it is told to, in the way it is told."""

import string
import sys

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("fragile", "do as told", horizon=50)
    yield envhub.Benchmark(name="breaks", make=":make", suites={"any": (task,)})


def make(task):
    return Fragile()


class Fragile(gym.Env):
    observation_space = spaces.Dict(
        state=spaces.Box(-1, 1, (3,), np.float32),
        image=spaces.Box(0, 255, (2, 2), np.uint8),
        pair=spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]),
        word=spaces.Text(9),
    )
    action_space = spaces.Text(20, charset=string.ascii_letters + " ")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        told = (options or {}).get("told", "")
        return {"nothing": None, "one value": (observation(told),)}.get(
            told, (observation(told), info(told))
        )

    def step(self, action):
        if action == "raises":
            raise RuntimeError("the arm broke")
        if action == "exits":
            sys.exit(3)
        rewards = {"no reward": None, "reward in words": "much", "two rewards": np.ones(2)}
        result = observation(action), rewards.get(action, 0.5), False, False, info(action)
        return {"four values": result[:4], "a list": list(result)}.get(action, result)


def observation(told):
    good = {
        "state": np.ones(3, np.float32),
        "image": np.full((2, 2), 9, np.uint8),
        "pair": (1, np.int64(2)),
        "word": "fine",
    }
    bad = {
        "wrong shape": {"state": np.ones(4, np.float32)},
        "too few dimensions": {"image": 3},
        "wrong dtype": {"image": np.ones((2, 2))},
        "signed": {"image": np.ones((2, 2), int)},
        "objects": {"state": [None, None, None]},
        "short tuple": {"pair": (1,)},
        "no text": {"word": 3},
    }
    if told == "missing key":
        del good["state"]
    return None if told == "no observation" else good | bad.get(told, {})


def info(told):
    return {"no mapping": ["success"], "no info": None}.get(told, {"told": told})
