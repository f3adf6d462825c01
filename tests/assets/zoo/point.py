"""An env that keeps every rule: a point is pushed along a line to a goal on the right."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

HORIZON = 12
GOAL = 0.5
SIZE = 16


class Point(gym.Env):
    """Twelve steps of 0.1 reach the goal; doing nothing or moving at random does not."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "render_leaf": "pixels"}
    render_mode = "rgb_array"
    observing = frozenset({"pixels", "agent_pos"})
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8),
            "agent_pos": spaces.Box(-2.0, 2.0, (2,), np.float32),
        }
    )

    def __init__(self) -> None:
        self.place, self.steps = 0.0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.start(), 0
        return self.look(), self.first_info()

    def step(self, action):
        self.steps += 1
        self.place = float(np.clip(self.place + self.move(action), -1.0, 1.0))
        return self.look(), *self.outcome(), self.info()

    def start(self):
        return float(self.np_random.uniform(-0.3, -0.1))

    def first_info(self):
        return {}

    def move(self, action):
        return 0.1 * float(action[0])

    def outcome(self):
        return self.place - GOAL, False, False

    def info(self):
        return {"is_success": bool(self.place >= GOAL)}

    def look(self):
        blank = np.zeros((SIZE, SIZE, 3), np.uint8)
        return {
            "pixels": self.draw() if "pixels" in self.observing else blank,
            "agent_pos": np.array([self.place, GOAL], np.float32),
        }

    def draw(self):
        picture = np.full((SIZE, SIZE, 3), 200, np.uint8)
        picture[:, int((self.place + 1.0) / 2.0 * (SIZE - 1))] = (40, 40, 160)
        return picture

    def render(self):
        return self.draw()
