"""Policies that act by what they see, by where they are, or by what they are told."""

import numpy as np


class Looker:
    batch = "any"

    def __init__(self, leaf):
        self.needs = frozenset({leaf})
        self.leaf = leaf

    def act(self, obs, episodes):
        rows = obs[self.leaf].reshape(len(episodes), -1)[:, :2].astype(np.float64)
        told = [len(episode.description) / 1000 for episode in episodes]
        return (np.sin(rows) / 2 + np.array(told)[:, None]).astype(np.float32)


def see(benchmark, observation_space, action_space):
    return Looker("pixels")


def feel(benchmark, observation_space, action_space):
    return Looker("place")


def feel_own_words(benchmark, observation_space, action_space):
    policy = Looker("place")
    policy.instructions = {"left": "My own words.", "right": "My own words."}
    return policy
