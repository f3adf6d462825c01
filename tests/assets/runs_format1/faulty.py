"""A policy that raises in the second episode of each task."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envhub import Context


class Faulty:
    needs = frozenset({"agent_pos", "environment_state"})

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Context]) -> np.ndarray:
        if any(each.index == 1 and each.step == 3 for each in episodes):
            raise ValueError("no fourth step")
        return np.clip(20.0 * (obs["environment_state"] - obs["agent_pos"]), -1.0, 1.0)


def make_policy(benchmark: Any, observation_space: Any, action_space: Any) -> Faulty:
    return Faulty()
