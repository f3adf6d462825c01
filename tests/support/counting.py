"""An env that counts, with spaces of several kinds."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

DICT = spaces.Dict({"count": spaces.Box(0, 99, (1,), np.int64), "parity": spaces.Discrete(2)})
PAIR = spaces.Dict({"by": spaces.Discrete(2), "push": spaces.Box(-1.0, 1.0, (2,), np.float32)})


class Counting(gym.Env):
    """Counts to a goal; the spaces vary, the numbers do not."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, goal: int = 3, observation: Any = None, action: Any = None, **told: Any):
        self.goal = goal
        self.observation_space = observation or spaces.Box(0, 99, (1,), np.int64)
        self.action_space = action or spaces.Discrete(2)
        vars(self).update(told)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = (options or {}).get("start", 0)
        return self.observe(), {"seed": seed}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        done = self.count == self.goal
        return self.observe(), 0.5, done, False, {"is_success": done, "deep": {"n": self.count}}

    def render(self):
        return np.full((2, 2, 3), self.count, np.uint8)

    def observe(self):
        count = np.array([self.count])
        match self.observation_space:
            case spaces.Dict():
                return {"count": count, "parity": self.count % 2}
            case spaces.Discrete():
                return self.count
        return count
