"""Perturbations of actions."""

from typing import Any

import numpy as np

from envhub.errors import ContractError

Array = np.ndarray[Any, Any]


class ActionNoise:
    """Adds noise to every action, and keeps it within the action space."""

    def __init__(self, strength: float) -> None:
        self._strength = strength
        self._low: Array = np.zeros(0)
        self._high: Array = np.zeros(0)

    def begin(self, scene: Any) -> None:
        """Read the range of actions.

        Raises:
            ContractError: Actions are not numbers in a range.
        """
        space = scene.action_space
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        if low is None or high is None or not np.isfinite([low, high]).all():
            raise ContractError(
                f"--perturb action needs actions that are numbers in a range, found {space}."
            )
        self._low, self._high = low, high

    def action(self, action: Array, rng: np.random.Generator) -> Array:
        """Return the action with noise."""
        noise = rng.standard_normal(action.shape) * (self._high - self._low) / 2
        return np.clip(action + self._strength * noise, self._low, self._high).astype(action.dtype)
