"""A walk along a line, in two suites, whose episodes can be steered from outside.

`gate` is a directory. While `<task>.<episode>` is in it, that episode waits in its reset, and says
so by making `<task>.<episode>.waiting`. With `<task>.<episode>.raise` there it raises, with
`<task>.<episode>.exit` its process ends. The episode is found by its seed, of `--seed 0`.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path

import gymnasium as gym
import numpy as np

import envhub
from envhub import Benchmark, Task
from envhub.seeding import make_seeds


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    near, back, far = _task("near", 0.4), _task("back", -0.4), _task("far", 1.3)
    yield Benchmark(
        name="walk",
        make=":make",
        suites={"short": (near, back), "long": (far, near)},
        episodes=3,
        memory_mb=64,
        policies={"expert": ":make_expert"},
    )


def _task(name: str, goal: float) -> Task:
    return Task(name, f"walk {name}", horizon=20, args={"goal": goal})


class Walk(gym.Env):
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    render_mode = "rgb_array"

    def __init__(
        self, name: str, goal: float, *, gate: str, pause: float, silent: bool, picture: str
    ) -> None:
        self._name, self._goal, self._silent, self._pause = name, goal, silent, pause
        self._gate = Path(gate) if gate else None
        self._picture = picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._gate:
            seeds = [*make_seeds("task", 0, self._name, 100)]
            episode = seeds.index(seed) if seed in seeds else seed
            self._pass(self._gate / f"{self._name}.{episode}")
        self._place = float(self.np_random.uniform(-0.1, 0.1))
        return self._look(), {}

    def step(self, action):
        time.sleep(self._pause)
        self._place += 0.1 * float(action[0]) + 0.02 * float(self.np_random.normal())
        gap = abs(self._goal - self._place)
        info = {} if self._silent else {"is_success": gap < 0.05}
        return self._look(), -gap, False, False, info

    def render(self):
        if self._picture == "none":
            return None
        if self._picture == "raises":
            raise RuntimeError("no light")
        channels = 1 if self._picture == "gray" else 3
        rng = np.random.default_rng(abs(int(self._place * 1e6)))
        frame = rng.integers(0, 256, (5, 7, channels), np.uint8)
        if self._gate:
            np.save(self._gate / "frame.npy", frame)
        return frame

    def _look(self):
        return np.array([self._place, self._goal], np.float32)

    def _pass(self, sign: Path) -> None:
        while sign.exists():
            sign.with_name(f"{sign.name}.waiting").touch()
            time.sleep(0.005)
        if sign.with_name(f"{sign.name}.raise").exists():
            raise RuntimeError("the ground gave way")
        if sign.with_name(f"{sign.name}.exit").exists():
            print("falling", flush=True)
            os._exit(3)


def make(
    task: Task, gate: str = "", pause: float = 0.0, silent: bool = False, picture: str = "rgb"
) -> Walk:
    goal = float(task.args["goal"])
    return Walk(task.name, goal, gate=gate, pause=pause, silent=silent, picture=picture)


class Expert:
    placement = "worker"

    def act(self, obs, episodes):
        return np.clip(10.0 * (obs[:, 1:] - obs[:, :1]), -1.0, 1.0)


def make_expert(benchmark, observation_space, action_space) -> Expert:
    return Expert()
