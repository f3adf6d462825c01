# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = ["numpy>=1.26", "scipy>=1.13"]
# ///
"""A policy that reads frames only. The block above is its environment, which EnvHub builds.

It finds the red puck, the green goal and the blue tip by their colours, goes round the puck and
pushes it. Replace it by a network of yours: load the weights in `make_policy`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from envhub import Benchmark, Context
from scipy import ndimage

Array = np.ndarray[Any, Any]

WIDTH = 1.015
"""Metres that a frame shows, at the height of the puck."""
_RED, _GREEN, _BLUE = 0, 1, 2


class PixelPolicy:
    """Pushes what it sees."""

    needs = frozenset({"pixels"})  # nothing else is sent, and only what is needed is drawn
    conventions = {  # noqa: RUF012 - what it was made for; another benchmark's are compared with it
        "control": "ee_velocity",
        "rotation": "none",
        "gripper": "none",
        "frame": "world",
        "images": "upright",
        "state": "planar_position",
        "control_hz": 10.0,
    }

    def act(self, obs: Mapping[str, Any], episodes: Sequence[Context]) -> Array:
        """Return one action per row; the state of an episode is kept in its memory."""
        rows = zip(obs["pixels"], episodes, strict=True)
        return np.stack([_act(frame, episode.memory) for frame, episode in rows])


def make_policy(benchmark: Benchmark, observation_space: Any, action_space: Any) -> PixelPolicy:
    """Make the policy; called once for every pair of spaces that the tasks have."""
    return PixelPolicy()


def _act(frame: Array, memory: dict[str, Any]) -> Array:
    goal = memory.setdefault("goal", _find(frame, _GREEN))  # the puck will cover it
    puck, tip = _find(frame, _RED), _find(frame, _BLUE)
    push = _unit(goal - puck)
    aside = np.array([-push[1], push[0]])
    along, off = float((tip - puck) @ push), float((tip - puck) @ aside)
    if along < 0.0 and abs(off) < 0.025:
        velocity = 0.6 * push - 15.0 * off * aside
    elif along < -0.075:
        velocity = 10.0 * (puck - 0.11 * push - tip)
    elif abs(off) < 0.12:
        velocity = (1.0 if off >= 0.0 else -1.0) * aside
    else:
        velocity = -push
    return (velocity / max(1.0, float(np.abs(velocity).max()))).astype(np.float32)


def _find(frame: Array, color: int) -> Array:
    """Return where the pixels of a colour are, in metres from the middle."""
    channels = frame.astype(np.int16)
    others = np.delete(channels, color, axis=-1).max(axis=-1)
    mask = channels[..., color] - others > 40
    if not mask.any():
        return np.zeros(2)
    row, column = ndimage.center_of_mass(mask)
    height, width = mask.shape
    return WIDTH * np.array([(column + 0.5) / width - 0.5, 0.5 - (row + 0.5) / height])


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0.0 else np.array([1.0, 0.0])
