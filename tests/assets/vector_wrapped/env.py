"""Envs that draw only what is observed, in wrappers that may or may not know of it."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces, wrappers

import envhub


class Unaware(gym.Env):
    """Draws everything, unless it is told otherwise; tells what was drawn."""

    observation_space = spaces.Dict(
        {name: spaces.Box(0, 255, (2, 2), np.uint8) for name in ("top", "wrist")}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._draw()

    def step(self, action):
        observation, info = self._draw()
        return observation, float(action), False, False, info

    def _draw(self):
        drawn = sorted(getattr(self, "observing", ("top", "wrist")))
        frames = {name: np.full((2, 2), 7 * (name in drawn), np.uint8) for name in ("top", "wrist")}
        return frames, {"drawn": drawn, "told": hasattr(self, "observing")}


class Aware(Unaware):
    """Declares that it can be told."""

    observing: frozenset[str]


class Brighter(gym.ObservationWrapper):
    """Looks at everything."""

    def observation(self, observation):
        return {name: frame + 1 for name, frame in observation.items()}


class BrighterWhereSeen(Brighter):
    """Looks at what is observed."""

    observing: frozenset[str] = frozenset()

    def observation(self, observation):
        seen = {name: observation[name] + 1 for name in self.observing}
        return {**observation, **seen}


def limited(env):
    return wrappers.OrderEnforcing(wrappers.TimeLimit(wrappers.RecordEpisodeStatistics(env), 9))


WRAPPERS = {
    "bare": None,
    "limited": limited,
    "opaque": Brighter,
    "opaque-within": lambda env: limited(Brighter(env)),
    "knowing": lambda env: limited(BrighterWhereSeen(env)),
    "unaware": limited,
    "rewarded": lambda env: wrappers.TransformReward(env, lambda reward: reward + 10),
}


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(envhub.Task(name, f"look, {name}", horizon=9) for name in WRAPPERS)
    yield envhub.Benchmark(name="wrapped", make=":make", suites={"any": tasks})


def make(task):
    return Unaware() if task.name == "unaware" else Aware()


@envhub.hookimpl
def envhub_wrap_env(task):
    return WRAPPERS[task.name]
