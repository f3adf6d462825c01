"""A scripted expert, which reads the state but no pixels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from envhub import Benchmark, Context

Array = np.ndarray[Any, Any]

_TOUCH = 0.075
"""Metres between the centres of puck and tip that touch."""
_BEHIND = 0.1
"""Metres behind the puck at which a push starts."""
_ASIDE = 0.13
"""Metres beside the puck at which the tip passes it."""
_ALIGNED = 0.02
"""Metres off the line of the push that are corrected while pushing."""


class Expert:
    """Goes round the puck, then pushes it straight to the goal."""

    placement: Literal["worker"] = "worker"
    needs = frozenset({"agent_pos", "environment_state"})

    def act(self, obs: Mapping[str, Any], episodes: Sequence[Context]) -> Array:
        """Return one action per row."""
        rows = zip(obs["agent_pos"], obs["environment_state"], strict=True)
        return np.stack([_velocity(tip, state[:2], state[2:]) for tip, state in rows])


def make_policy(benchmark: Benchmark, observation_space: Any, action_space: Any) -> Expert:
    """Make the policy `expert`."""
    return Expert()


def _velocity(tip: Array, puck: Array, goal: Array) -> Array:
    push = _unit(goal - puck)
    aside = np.array([-push[1], push[0]])
    gap = tip - puck
    along, off = float(gap @ push), float(gap @ aside)
    if along < 0.0 and abs(off) < _ALIGNED:
        speed = min(1.0, 0.2 + 5.0 * float(np.linalg.norm(goal - puck)))
        velocity = speed * push - 20.0 * off * aside
    elif along < -_TOUCH:
        velocity = 15.0 * (puck - _BEHIND * push - tip)
    elif abs(off) < _ASIDE - 0.02:
        velocity = (1.0 if off >= 0.0 else -1.0) * aside
    else:
        velocity = -push
    return (velocity / max(1.0, float(np.abs(velocity).max()))).astype(np.float32)


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0.0 else np.array([1.0, 0.0])
