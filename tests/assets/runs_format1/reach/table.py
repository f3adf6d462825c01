"""The table that the point moves on."""

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

_SPEED = 0.05
_CLOSE = 0.05


class Table(gym.Env[dict[str, Any], np.ndarray]):
    """A point, a goal, and a picture of both. Success: the point is on the goal."""

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "render_leaf": "pixels",
    }
    render_mode = "rgb_array"
    observing: frozenset[str] = frozenset({"pixels", "agent_pos", "environment_state"})

    def __init__(self, distance: float, size: int) -> None:
        self.observation_space = spaces.Dict(
            {
                "pixels": spaces.Box(0, 255, (size, size, 3), np.uint8),
                "agent_pos": spaces.Box(-1.0, 1.0, (2,), np.float32),
                "environment_state": spaces.Box(-1.0, 1.0, (2,), np.float32),
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._distance = distance
        self._size = size
        self._point = np.zeros(2)
        self._goal = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        angle = self.np_random.uniform(0.0, 2.0 * np.pi)
        self._point = np.zeros(2)
        self._goal = self._distance * np.array([np.cos(angle), np.sin(angle)])
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        moved = self._point + _SPEED * np.clip(np.asarray(action, float), -1.0, 1.0)
        self._point = np.clip(moved, -1.0, 1.0)
        gap = float(np.linalg.norm(self._point - self._goal))
        return self._observe(), -gap, False, False, {"is_success": gap < _CLOSE}

    def render(self) -> np.ndarray:
        picture = np.full((self._size, self._size, 3), 235, np.uint8)
        for place, color in ((self._goal, (200, 60, 60)), (self._point, (40, 40, 160))):
            row, column = ((place + 1.0) / 2.0 * (self._size - 1)).astype(int)
            reach = max(1, self._size // 32)
            picture[
                max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1
            ] = color
        return picture

    def _observe(self) -> dict[str, Any]:
        drawn = "pixels" in self.observing
        blank = np.zeros((self._size, self._size, 3), np.uint8)
        return {
            "pixels": self.render() if drawn else blank,
            "agent_pos": self._point.astype(np.float32),
            "environment_state": self._goal.astype(np.float32),
        }
