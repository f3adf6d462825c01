"""Observations as published LIBERO checkpoints take them, under LeRobot's names."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SMALLEST = 1e-10
"""Below it the sine of half the angle counts as zero, and the rotation as none."""


def convert(observation: Any) -> dict[str, Array]:
    """Turn the images by 180 degrees, and join the 8 numbers of the state.

    Checkpoints were trained on upright images, and on position, axis-angle and gripper joints.
    """
    state = observation["robot_state"]
    images = {
        f"observation.images.{name}": np.ascontiguousarray(image[::-1, ::-1])
        for name, image in observation["pixels"].items()
    }
    parts = (state["eef"]["pos"], axis_angle(state["eef"]["quat"]), state["gripper"]["qpos"])
    return {**images, "observation.state": np.concatenate(parts).astype(np.float32)}


def axis_angle(quaternion: Array) -> Array:
    """Return the axis times the angle of a rotation, whose quaternion is (x, y, z, w).

    As robosuite and LeRobot compute it: the angle lies between 0 and 2 pi, above pi where w is
    negative. Checkpoints were trained on these numbers.
    """
    w = float(np.clip(quaternion[3], -1.0, 1.0))
    sine = float(np.sqrt(1.0 - w * w))
    if sine <= _SMALLEST:
        return np.zeros(3)
    scale: float = 2.0 * float(np.arccos(w)) / sine
    return np.asarray(quaternion[:3], np.float64) * scale
