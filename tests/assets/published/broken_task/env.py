"""Six tasks, of which one cannot be made."""

from functools import partial

import gymnasium as gym


def make(number):
    if number == 3:
        raise FileNotFoundError("the mesh of drawer-3 is missing")
    return gym.make("CartPole-v1", max_episode_steps=4 + number)


def make_env(n_envs=1, use_async_envs=False):
    return {"drawers": {f"drawer-{number}": partial(make, number) for number in range(6)}}
