"""A policy for LIBERO whose actions follow from every bit that it is shown."""

import hashlib

import numpy as np


def make_policy(benchmark, observation_space, action_space):
    return Digesting()


class Digesting:
    def act(self, obs, episodes):
        return np.stack([self._act(obs, row) for row in range(len(episodes))])

    def _act(self, obs, row):
        joined = hashlib.sha256()
        for leaf in _leaves(obs):
            joined.update(np.ascontiguousarray(leaf[row]).tobytes())
        seed = int.from_bytes(joined.digest()[:8], "little")
        return np.random.default_rng(seed).uniform(-1, 1, 7).astype(np.float32)


def _leaves(obs):
    for value in obs.values():
        yield from _leaves(value) if isinstance(value, dict) else [value]
