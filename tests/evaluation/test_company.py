"""The actions for a row do not depend on which other rows wait with it."""

import json
import runpy
from pathlib import Path

import pytest
from support.needs import needs_torch

import envhub

ENV = """
import gymnasium as gym
import numpy as np

class Drift(gym.Env):
    observation_space = gym.spaces.Dict({
        "state": gym.spaces.Box(-np.inf, np.inf, (39,), np.float32),
        "pixels": gym.spaces.Box(0, 255, (12, 12, 3), np.uint8),
    })
    action_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    _max_episode_steps = 12
    task_description = "Drift."

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state = self.np_random.normal(size=39).astype(np.float32)
        return self._observation(), {}

    def step(self, action):
        self._state = np.roll(self._state, 4)
        self._state[:4] = action
        return self._observation(), float(action[0]), False, False, {"is_success": False}

    def _observation(self):
        pixels = self.np_random.integers(0, 256, (12, 12, 3), np.uint8)
        return {"state": self._state.copy(), "pixels": pixels}

def make_env(n_envs=1, use_async_envs=False):
    return gym.vector.SyncVectorEnv([Drift])
"""

POLICY = """
import os
import time
import numpy as np

class Network:
    def __init__(self, kind):
        self._kind, self._log = kind, os.environ.get("ROWS")
        self.needs = {"pixels" if kind == "pixels" else "state"}
        rng, inputs = np.random.default_rng(7), 432 if kind == "pixels" else 39
        sizes = (inputs, 128, 96, 4)
        shapes = zip(sizes, sizes[1:])
        self._weights = [rng.normal(size=s).astype(np.float32) / s[0] ** 0.5 for s in shapes]
        if kind == "torch":
            import torch
            torch.set_num_threads(1)
            self._weights = [torch.from_numpy(each) for each in self._weights]

    def act(self, obs, episodes):
        if self._log:
            with open(self._log, "a") as file:
                print(len(episodes), file=file)
        time.sleep(0.002)  # so that rows wait for each other
        if self._kind == "torch":
            import torch
            values = torch.from_numpy(obs["state"])
            for weights in self._weights:
                values = torch.tanh(values @ weights)
            return values
        values = obs["state"] if self._kind != "pixels" else (
            obs["pixels"].reshape(len(episodes), -1).astype(np.float32) / 255
        )
        for weights in self._weights:
            values = np.tanh(values @ weights)
        return values

def make_policy(benchmark, observation_space, action_space, kind="numpy"):
    return Network(kind)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "env.py").write_text(ENV)
    (tmp_path / "policy.py").write_text(POLICY)
    return tmp_path


def traces(run: envhub.Run) -> list[str | None]:
    assert {record.status for record in run.records()} == {"ok"}
    return [record.trace for record in run.records()]


@pytest.mark.parametrize("kind", ["numpy", "pixels", pytest.param("torch", marks=needs_torch)])
def test_a_network_acts_alike_for_any_number_of_workers(place, kind):
    found = [
        traces(
            envhub.evaluate(
                place / "env.py", place / "policy.py", episodes=10, workers=workers,
                policy_args={"kind": kind}, out=place / f"run-{workers}",
            )
        )
        for workers in (1, 5)
    ]  # fmt: skip
    assert len(set(found[0])) == 10
    assert found[1] == found[0]


def test_a_policy_of_a_program_acts_alike(place, monkeypatch):
    """Whether bits differ depends on the kernels of this process, so the calls are looked at."""
    monkeypatch.setenv("ROWS", str(place / ".rows"))
    make = runpy.run_path(str(place / "policy.py"))["make_policy"]
    found = [
        traces(
            envhub.evaluate(
                place / "env.py", make(None, None, None), episodes=10, workers=workers,
                out=place / f"run-{workers}",
            )
        )
        for workers in (1, 5)
    ]  # fmt: skip
    assert found[0] == found[1]
    assert (place / ".rows").read_text().split() == ["1"] * 240


def test_a_run_that_was_begun_with_whatever_waited_goes_on_so(place, monkeypatch):
    log = place / ".rows"  # hidden, else it were a file of the benchmark
    monkeypatch.setenv("ROWS", str(log))
    question = {"episodes": 8, "workers": 4, "out": place / "run", "resume": True}
    run = envhub.evaluate(place / "env.py", place / "policy.py", **question)
    assert run.info["policy"]["batch"] == 1
    assert {*log.read_text().split()} == {"1"}
    first, *_ = (place / "run" / "episodes.jsonl").read_text().splitlines(keepends=True)
    content = json.loads((place / "run" / "run.json").read_text())
    content["policy"]["batch"] = None
    (place / "run" / "run.json").write_text(json.dumps(content))
    for _ in range(2):
        log.write_text("")
        (place / "run" / "episodes.jsonl").write_text(first)
        run = envhub.evaluate(place / "env.py", place / "policy.py", **question)
        assert run.info["policy"]["batch"] == "any"
        assert max(map(int, log.read_text().split())) > 1
