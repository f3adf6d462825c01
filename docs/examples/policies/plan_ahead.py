"""A policy that knows how late its actions are: it plans from where the committed ones will end.

envhub eval ./docs/examples/reach --policy ./docs/examples/policies/plan_ahead.py \
    --latency 500ms,mode=overlap
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envhub import Benchmark, Context

SPEED = 0.05  # what an action of 1 moves the point by


class PlanAhead:
    needs = frozenset({"agent_pos", "environment_state"})
    batch = "any"

    def __init__(self, length: int) -> None:
        self._length = length

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Context]) -> np.ndarray:
        """Return a chunk per row; with `mode=overlap` its first `delay` actions come too late."""
        chunks = []
        for row, episode in enumerate(episodes):
            goal, place = obs["environment_state"][row], obs["agent_pos"][row]
            begun = [] if episode.committed is None else [*episode.committed]
            if begun:
                place = place + SPEED * np.sum(begun, axis=0)
            chunk = begun if episode.step else []  # before the first call the robot held still
            while len(chunk) < self._length:
                action = np.clip((goal - place) / SPEED, -1.0, 1.0)
                place = place + SPEED * action
                chunk = [*chunk, action]
            chunks.append(chunk)
        return np.array(chunks, np.float32)


def make_policy(
    benchmark: Benchmark, observation_space: Any, action_space: Any, length: int = 16
) -> PlanAhead:
    return PlanAhead(length)
