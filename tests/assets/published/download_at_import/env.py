"""Downloads its scene when it is imported; the address is in a file beside it."""

import json
from pathlib import Path
from urllib.request import urlopen

import gymnasium as gym

with urlopen(Path(__file__).with_name("address.txt").read_text(), timeout=20) as answer:
    SCENE = json.load(answer)


def make_env(n_envs=1, use_async_envs=False):
    steps = SCENE["steps"]
    return {"scene": lambda: gym.make("CartPole-v1", max_episode_steps=steps)}
