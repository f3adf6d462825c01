"""Policies and episodes, as tests make them."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

from envhub.wire.policy_contract import Context, make_rng

LEAVES = ("pixels/front", "pixels/wrist", "agent_pos")
SPACE = spaces.Box(-1.0, 1.0, (2,), np.float32)


def context(seed=0, task="reach", **more):
    rng = make_rng(seed, task)
    return Context("suite", task, f"do {task}", seed, seed, rng=rng, **more)


def policy(act=lambda obs, episodes: np.zeros((len(episodes), 2)), **declared):
    return SimpleNamespace(act=act, **declared)
