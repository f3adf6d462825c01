"""What is to be done is known after a reset, and both it and the horizon are methods."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Pick(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = spaces.Dict(
        {
            "observation.state": spaces.Box(0, 99, (2,), np.float32),
            "observation.images.top": spaces.Box(0, 255, (4, 6, 3), np.uint8),
        }
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    color = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.color = ("red", "green", "blue")[int(self.np_random.integers(3))]
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        done = self.count == 3
        return self.observe(), 1.0, done, False, {"is_success": done}

    def task(self):
        return "0"

    def task_description(self):
        if self.color is None:
            raise RuntimeError("reset first")
        return f"Pick up the {self.color} cube."

    def _max_episode_steps(self):
        return 5

    def render(self):
        return self.observe()["observation.images.top"]

    def observe(self):
        return {
            "observation.state": np.full(2, self.count, np.float32),
            "observation.images.top": np.full((4, 6, 3), 51 * self.count, np.uint8),
        }


def make_env(n_envs=1, use_async_envs=False):
    make = gym.vector.AsyncVectorEnv if use_async_envs else gym.vector.SyncVectorEnv
    return make([Pick for _ in range(n_envs)])
