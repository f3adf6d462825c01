"""Walks towards the goal with some noise of its own, and looks at everything."""

import numpy as np


class Walker:
    def act(self, obs, episodes):
        noise = np.array([[episode.rng.normal()] for episode in episodes])
        return (-obs["gap"] + noise).astype(np.float32)


def make_policy(benchmark, observation_space, action_space):
    return Walker()
