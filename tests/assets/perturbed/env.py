"""A scene of one number, seen through a camera of another, whose rewards say nothing of either."""

import os
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub
from envhub import Benchmark, Task


@envhub.hookimpl
def envhub_benchmarks():
    tasks = tuple(Task(name, f"Push the {name} one.", horizon=12) for name in ("left", "right"))
    yield Benchmark(name="perturbed", make=":make", suites={"all": tasks}, episodes=3)


def make(task, offers="all", drift=None, log=None, dies=None):
    return Plain() if offers == "nothing" else Scene(drift, log, dies)


class Plain(gym.Env):
    """An env that offers nothing, and has no picture."""

    observation_space = spaces.Dict({"place": spaces.Box(-np.inf, np.inf, (2,), np.float64)})
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return {"place": np.zeros(2)}, {}

    def step(self, action):
        return {"place": np.zeros(2)}, 0.0, False, False, {"is_success": False}


class Scene(gym.Env):
    """The picture is the place as the camera sees it; MuJoCo's names, and a state of its own."""

    render_mode = "rgb_array"
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observing = frozenset({"pixels", "place"})

    def __init__(self, drift, log, dies):
        self.observation_space = spaces.Dict(
            {
                "pixels": spaces.Box(0, 255, (8, 8, 3), np.uint8),
                "place": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.camera = np.full(3, 100.0)
        self.drift = 0.0 if drift is None else float(Path(drift).read_text())
        self.log = log
        self.dies = dies
        self.place = np.zeros(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        assert (self.camera == 100.0).all(), "the last episode's changes are still there"
        self.place = self.np_random.uniform(-1.0, 1.0, 2)
        return self.observe(), {}

    def step(self, action):
        if self.dies and not Path(self.dies).exists():  # once, in the middle of an episode
            Path(self.dies).touch()
            os._exit(1)
        self.place = self.place + np.asarray(action, np.float64) + self.drift
        return self.observe(), 0.0, False, False, {"is_success": False}

    def render(self):
        seen = self.camera + 10.0 * np.array([*self.place, 0.0])
        return np.broadcast_to(np.clip(seen, 0, 255).astype(np.uint8), (8, 8, 3)).copy()

    def observe(self):
        drawn = "pixels" in self.observing
        if drawn and self.log:
            with Path(self.log).open("a") as file:
                file.write("drawn\n")
        pixels = self.render() if drawn else np.zeros((8, 8, 3), np.uint8)
        return {"pixels": pixels, "place": self.place.copy()}

    def mujoco(self):
        return self, SimpleNamespace(place=self.place)

    def physics_state(self):
        return [self.place]
