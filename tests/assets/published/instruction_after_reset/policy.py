"""Picks the cube that the instruction names."""

import numpy as np

COLORS = ("red", "green", "blue")


class Obedient:
    needs = frozenset()

    def act(self, obs, episodes):
        words = [episode.description.rstrip(".").split() for episode in episodes]
        return np.array([[COLORS.index(word) for word in text if word in COLORS] for text in words])


def make_policy(benchmark, observation_space, action_space):
    return Obedient()
