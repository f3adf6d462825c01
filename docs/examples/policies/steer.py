"""A policy in numpy: steer straight to the goal.

envhub eval ./docs/examples/reach --policy ./docs/examples/policies/steer.py
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envhub import Benchmark, Context


class Steer:
    needs = frozenset({"agent_pos", "environment_state"})  # so that no picture is drawn
    batch = "any"  # the rows do not influence each other, not even in the last bits

    def __init__(self, gain: float) -> None:
        self._gain = gain

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Context]) -> np.ndarray:
        """Return one action per row."""
        gap = obs["environment_state"] - obs["agent_pos"]
        return np.clip(self._gain * gap, -1.0, 1.0)


def make_policy(
    benchmark: Benchmark, observation_space: Any, action_space: Any, gain: float = 20.0
) -> Steer:
    return Steer(gain)
