"""Envs of any spaces: they observe at random, and tell what they were given."""

import json
from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub

from .trees import build  # noqa: TID252


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("sample", "sample the space", horizon=50)
    yield envhub.Benchmark(name="spaces", make=":make", suites={"any": (task,)})


def make(task, spec):
    trees = json.loads(spec)
    return Sampler(build(trees["observation"]), build(trees["action"]))


class Sampler(gym.Env):
    """Observations, rewards, ends and infos are functions of the seed; infos are of all kinds."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 7}
    render_mode = "rgb_array"
    task_description = "sample the space"
    _max_episode_steps = 50

    def __init__(self, observation_space, action_space):
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self._observe(), self._info() | {"options": tell(options)}

    def step(self, action):
        info = self._info() | {"action": tell(action)}
        kinds = (float, int, np.float32, np.float64, np.asarray)
        reward = kinds[self.np_random.integers(5)](self.np_random.normal() * 9)
        terminated, truncated = (bool(end) for end in self.np_random.random(2) < 0.12)
        return self._observe(), reward, terminated, truncated, info

    def render(self):
        return self.np_random.integers(0, 256, (4, 5, 3), np.uint8)

    def add(self, left, *, right=0):
        return left + right

    def _observe(self):
        return in_arrays(self.observation_space, self.observation_space.sample())

    def _info(self):
        number = self.np_random.normal()
        scalars = {kind.__name__: kind(number * 9) for kind in (int, float, bool, str)}
        whole = (np.int8, np.int32, np.int64)
        numpy = {f"np_{kind.__name__}": kind(int(number * 9)) for kind in whole}
        numpy |= {f"np_{kind.__name__}": kind(number) for kind in (np.float32, np.float64)}
        numpy |= {"np_bool": np.bool_(number > 0), "np_str": np.str_(number)}
        plain = {"none": None, "list": [1, [number, None]], "tuple": (number, ("a",), [np.int8(3)])}
        arrays = {
            "array": self.np_random.normal(size=(2, 3)),
            "fortran": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
            "point": np.array(number),
            "empty": np.zeros((0, 2), np.uint8),
        }
        mixed = {"mixed": int(number * 9) if number > 0 else number * 9}
        info = {**scalars, **numpy, **plain, **arrays, **mixed}
        info["nested"] = {"deep": self._some({"x": number, "y": "text"}), **self._some(info)}
        return self._some(info)

    def _some(self, info):
        """Keys come and go, as in real envs."""
        kept = self.np_random.random(len(info)) < 0.8
        return {key: value for (key, value), keep in zip(info.items(), kept, strict=True) if keep}


def in_arrays(space, sample):
    """The sample with arrays for every Box: of whole numbers without a shape it samples none."""
    match space:
        case spaces.Dict():
            return {key: in_arrays(space[key], part) for key, part in sample.items()}
        case spaces.Tuple():
            return tuple(in_arrays(*part) for part in zip(space.spaces, sample, strict=True))
        case spaces.Box():
            return np.asarray(sample)
    return sample


def tell(value):
    """A value in words, down to types and dtypes."""
    match value:
        case dict():
            return f"dict({', '.join(f'{key}={tell(item)}' for key, item in value.items())})"
        case list() | tuple():
            return f"{type(value).__name__}({', '.join(tell(item) for item in value)})"
        case np.ndarray():
            return f"array({value.dtype}, {value.shape}, {value.tolist()})"
    return f"{type(value).__name__}({value!s})"
