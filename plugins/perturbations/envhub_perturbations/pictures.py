"""Perturbations of pictures, whatever has drawn them."""

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_GREY = 128


class Noise:
    """Adds noise of its own to every number of every picture."""

    def __init__(self, strength: float) -> None:
        self._deviation = 255.0 * strength

    def picture(self, frame: Array, rng: np.random.Generator) -> Array:
        """Return the picture with noise."""
        noise = rng.standard_normal(frame.shape, np.float32) * np.float32(self._deviation)
        return np.clip(np.rint(frame + noise), 0, 255).astype(np.uint8)


class Blur:
    """Blurs pictures by a Gaussian, cut off at three standard deviations."""

    def __init__(self, strength: float) -> None:
        self._strength = strength

    def picture(self, frame: Array, _rng: np.random.Generator) -> Array:
        """Return the blurred picture."""
        deviation = self._strength * frame.shape[1]
        reach = math.ceil(3 * deviation)
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
        weights = (weights / weights.sum()).astype(np.float32)
        blurred = frame.astype(np.float32)
        for axis in (0, 1):
            blurred = _convolve(blurred, weights, axis)
        return np.clip(np.rint(blurred), 0, 255).astype(np.uint8)


class Occlusion:
    """Covers a grey square, at the same place of all pictures of an episode."""

    def __init__(self, strength: float) -> None:
        self._side = math.sqrt(strength)
        self._place = (0.0, 0.0)

    def begin(self, scene: Any) -> None:
        """Draw the place."""
        row, column = scene.rng.random(2)
        self._place = (float(row), float(column))

    def picture(self, frame: Array, _rng: np.random.Generator) -> Array:
        """Return the picture with the square."""
        covered = frame.copy()
        top, left = (
            round(share * (1 - self._side) * size)
            for share, size in zip(self._place, frame.shape[:2], strict=True)
        )
        height, width = (max(1, round(self._side * size)) for size in frame.shape[:2])
        covered[top : top + height, left : left + width] = _GREY
        return covered


def _convolve(frame: Array, weights: Array, axis: int) -> Array:
    """Sum shifted copies; beyond its edges a picture goes on as there."""
    reach, size = len(weights) // 2, frame.shape[axis]
    edges = [(reach, reach) if each == axis else (0, 0) for each in range(frame.ndim)]
    padded = np.pad(frame, edges, mode="edge")
    total = np.zeros_like(frame)
    for shift, weight in enumerate(weights):
        window = [slice(None)] * frame.ndim
        window[axis] = slice(shift, shift + size)
        total += weight * padded[tuple(window)]
    return total
