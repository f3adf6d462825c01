"""A benchmark that declares every convention; its argument `control` changes one of them."""

from collections.abc import Iterable

import gymnasium as gym
import numpy as np

import envhub
from envhub import Benchmark, Task


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    yield Benchmark(
        name="arm",
        make=":make",
        suites={"arm": (Task("lift", "lift it", horizon=2),)},
        episodes=1,
        control_hz=20.0,
        memory_mb=64,
        policies={"expert": ":make_expert"},
        conventions=":conventions_of",
        lerobot=":convert",
        lerobot_conventions={"images": "upright"},
    )


def conventions_of(control: str = "relative", wrong: str = "") -> dict[str, str]:
    return {
        "control": "ee_pose" if control == "absolute" else "ee_delta_pose",
        "rotation": "axis_angle",
        "gripper": wrong or "positive_closes",
        "frame": "world",
        "images": "upside_down",
        "state": "ee_axis_angle_gripper",
    }


class Arm(gym.Env):
    action_space = gym.spaces.Box(-1.0, 1.0, (7,), np.float32)
    observation_space = gym.spaces.Box(-1.0, 1.0, (8,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(8, np.float32), {}

    def step(self, action):
        return np.zeros(8, np.float32), 0.0, False, False, {"is_success": False}


def make(task: Task, control: str = "relative", wrong: str = "") -> Arm:
    return Arm()


def convert(observation):
    return {"observation.state": observation}


class Declares:
    """Acts with zeros, and declares what it is told."""

    def __init__(self, placement: str, conventions: dict[str, object]) -> None:
        self.placement = placement
        self.conventions = conventions

    def act(self, obs, episodes):
        return np.zeros((len(episodes), 7), np.float32)


def make_policy(benchmark, observation_space, action_space, placement="process", **conventions):
    return Declares(placement, conventions)


def make_expert(benchmark, observation_space, action_space, **conventions):
    return Declares("worker", conventions)
