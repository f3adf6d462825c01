"""A policy whose actions say in which call, and for which look, they were made."""

import json
from pathlib import Path

import numpy as np


class Counter:
    """Answers with chunks that say in which call, and for which look, they were made."""

    needs = frozenset({"step"})

    def __init__(self, size, placement, heard):
        self.size, self.placement, self.heard = size, placement, heard

    def start(self, episode):
        episode.memory["calls"] = 0

    def act(self, obs, episodes):
        chunks = []
        for row, episode in enumerate(episodes):
            episode.memory["calls"] += 1
            assert episode.step == obs["step"][row][0]
            if self.heard is not None:
                committed = None if episode.committed is None else episode.committed.tolist()
                with Path(self.heard).open("a") as file:
                    said = [episode.index, episode.step, episode.delay, committed]
                    file.write(json.dumps(said) + "\n")
            call = episode.memory["calls"]
            chunks.append([[100 * call + k, episode.step, call] for k in range(self.size)])
        return np.array(chunks, np.float32)


def make_policy(benchmark, observation_space, action_space, size=1, placement="worker", heard=None):
    return Counter(size, placement, heard)
