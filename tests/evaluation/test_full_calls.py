"""A policy with a `batch` is called for that many rows; none waits for those of the next call."""

import envhub

ENV = """
import pathlib
import gymnasium as gym
import numpy as np

class Marking(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    _max_episode_steps = 3
    task_description = "Leave a mark."

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        pathlib.Path(MARK).touch()
        return np.zeros(1, np.float32), 1.0, False, False, {"is_success": False}

def make_env(n_envs=1, use_async_envs=False):
    return gym.vector.SyncVectorEnv([Marking])
"""

POLICY = """
import pathlib
import time
import numpy as np

class Second:
    batch = 1
    calls = 0

    def act(self, obs, episodes):
        self.calls += 1
        if self.calls == 2:
            end = time.monotonic() + 30
            while not pathlib.Path(MARK).exists():
                if time.monotonic() > end:
                    raise TimeoutError("the first row still waits for this one")
                time.sleep(0.01)
        else:
            time.sleep(0.05)  # so that both slots wait
        return np.zeros((len(episodes), 1), np.float32)

def make_policy(benchmark, observation_space, action_space):
    return Second()
"""


def test_no_row_waits_for_the_next_call(tmp_path):
    mark = repr(str(tmp_path / "mark"))
    (tmp_path / "env.py").write_text(ENV.replace("MARK", mark))
    (tmp_path / "policy.py").write_text(POLICY.replace("MARK", mark))
    run = envhub.evaluate(
        tmp_path / "env.py", tmp_path / "policy.py", episodes=4, workers=2, out=tmp_path / "run"
    )
    assert [record.status for record in run.records()] == ["ok"] * 4
    assert run.info["policy"]["latency"]["calls"] == 12
