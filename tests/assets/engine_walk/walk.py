"""A walk whose every number depends on all that was observed, done and drawn from its generator."""

import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SIZE = 6


class Sincere(gym.Env):
    """Draws everything, always, and notes in a room what it draws."""

    def __init__(self, task, nap=0.0, room=""):
        camera = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.observation_space = spaces.Dict(
            {
                "pixels": spaces.Dict({"front": camera, "wrist": camera}),
                "agent_pos": spaces.Box(-9.0, 9.0, (2,), np.float32),
                "goal": spaces.Box(-9.0, 9.0, (2,), np.float32),
                "hint": spaces.Text(40, charset="abcdefghijklmnopqrstuvwxyz "),
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.task = task
        self.nap = nap
        self.room = room
        self.over = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = seed
        self.count = 0
        self.over = False
        self.goal = self.np_random.uniform(-0.5, 0.5, 2)
        self.place = self.np_random.uniform(-0.5, 0.5, 2)
        if self.task.init_states:
            self.place += options["init_state"]
        else:
            assert options is None
        self.limit = 12 + seed % 5 if self.task.name == "ever" else 10**6
        return self.observe(), {"seed": seed}

    def step(self, action):
        if self.over:
            raise RuntimeError("stepped after the end")
        time.sleep(self.nap)
        assert action.dtype == np.float32
        assert action.shape == (2,)
        self.count += 1
        noise = self.np_random.normal(0.0, 0.01, 2)
        self.place = self.place + 0.1 * np.clip(action.astype(float), -1.0, 1.0) + noise
        gap = float(np.linalg.norm(self.place - self.goal))
        won = gap < 0.1
        lost = self.task.name == "mute" and self.np_random.random() < 0.1
        cut = self.count >= self.limit
        first = won and self.task.success == "once" and not self.task.args.get("mute")
        self.over = lost or cut or first or self.count >= self.task.horizon
        info = {} if self.task.args.get("mute") else {"is_success": won}
        return self.observe(), -gap, lost, cut, info

    def observe(self):
        return {
            "pixels": {"front": self.look("front", 3), "wrist": self.look("wrist", 7)},
            "agent_pos": self.place.astype(np.float32),
            "goal": self.goal.astype(np.float32),
            "hint": "abc"[self.count % 3] * (1 + self.count % 4),
        }

    def look(self, camera, shade):
        """A picture that holds the last bits of where it is."""
        if self.room:
            with (Path(self.room) / f"{self.task.name}-{self.seed}").open("a") as file:
                file.write(f"{camera}\n")
        bits = np.frombuffer(self.place.tobytes(), np.uint8).astype(int)
        return np.resize(bits * shade, (SIZE, SIZE, 3)).astype(np.uint8)


class Walk(Sincere):
    """Draws what somebody observes."""

    observing: frozenset

    def look(self, camera, shade):
        if f"pixels/{camera}" in self.observing:
            return super().look(camera, shade)
        return np.zeros((SIZE, SIZE, 3), np.uint8)
