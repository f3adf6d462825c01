import gymnasium as gym
import numpy as np


class Slide(gym.Env):
    """Slide a cart to the mark."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    max_episode_steps = 60

    def __init__(self, render_mode=None, side="any"):
        self.render_mode = render_mode
        self.sides = {"left": [-1], "right": [1], "any": [-1, 1]}[side]
        self.observation_space = gym.spaces.Box(-3, 3, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = 0.0, 0.0
        self.mark = float(self.np_random.choice(self.sides) * self.np_random.uniform(0.5, 1.5))
        return self._observe(), {}

    def step(self, action):
        self.v += 0.05 * (float(np.clip(action[0], -1, 1)) - self.v)
        self.x = float(np.clip(self.x + self.v, -2, 2))
        gap = abs(self.x - self.mark)
        solved = gap < 0.05 and abs(self.v) < 0.01  # there, and at rest
        return self._observe(), -gap, False, False, {"solved": solved}

    def render(self):
        picture = np.full((64, 64, 3), 235, np.uint8)
        for place, color in ((self.mark, (60, 160, 80)), (self.x, (40, 60, 160))):
            column = int((place + 2) / 4 * 60)
            picture[28:36, column : column + 4] = color
        return picture

    def _observe(self):
        return np.array([self.x, self.v, self.mark], np.float32)
