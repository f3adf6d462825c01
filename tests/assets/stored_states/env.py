"""A benchmark with stored initial states, whose success does not end the env's own episodes."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task


@envhub.hookimpl
def envhub_benchmarks():
    tasks = (Task("once", "Go.", 9, init_states=3), Task("ever", "Go on.", 9, success="ever"))
    yield Benchmark(
        "stored", ":make", {"any": tasks}, lerobot=":convert", spaces=":spaces_of", memory_mb=64
    )


def make(task):
    return Stored()


def spaces_of(task):
    env = Stored()
    return env.observation_space, env.action_space


def convert(observation):
    return {
        "observation.images.top": observation["pixels"][::-1],
        "observation.state": observation["agent_pos"],
    }


class Stored(gym.Env):
    """Shows its initial state, its steps and how many pictures it has drawn; succeeds after 3."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    render_mode = "rgb_array"
    observing = frozenset({"pixels"})

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "pixels": spaces.Box(0, 255, (6, 8, 3), np.uint8),
                "agent_pos": spaces.Box(-1, 99, (3,), np.float32),
                "parts": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Discrete(3)}),
            }
        )
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.drawn = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = (options or {}).get("init_state", -1), 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        return self._observe(), 1.0, False, False, {"success": self.steps >= 3}

    def render(self):
        return np.zeros((6, 8, 3), np.uint8)

    def _observe(self):
        pixels = np.zeros((6, 8, 3), np.uint8)
        if "pixels" in self.observing:
            self.drawn += 1
            pixels[0] = self.drawn
        agent = np.array([self.state, self.steps, self.drawn], np.float32)
        return {"pixels": pixels, "agent_pos": agent, "parts": {"a": 1, "b": 2}}
