"""A task whose env ends the process costs its own episodes, and is named."""

import re

import pytest
from support.commands import envhub as command

import envhub
from envhub.errors import WorkerDied, WorkerTimeout
from envhub.options import Limits

ENV = """
import os
import time
from functools import partial

import gymnasium as gym
import numpy as np


class Quiet(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    _max_episode_steps = 3

    def __init__(self, name):
        self.task_description = f"Do {name}."
        if name.startswith("ends"):
            print("the last words of", name, flush=True)
            os._exit(7)
        if name.startswith("hangs"):
            time.sleep(1000)
        if name.startswith("slow"):
            time.sleep(1.5)
        if name.startswith("raises"):
            raise FileNotFoundError("no mesh")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(self.np_random.random()), False, False, {}


def make_env(n_envs=1, use_async_envs=False, names=""):
    return {"quiet": {name: partial(Quiet, name) for name in names.split()}}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "env.py"
    path.write_text(ENV)
    return str(path)


def evaluate(file, out, names, **more):
    return envhub.evaluate(
        file, "random", episodes=2, env_args={"names": names}, out=str(out), **more
    )


def told(record):
    error = record.error and record.error.message
    return record.task, record.episode, record.status, record.steps, record.return_, error


def test_the_other_tasks_are_played(file, tmp_path):
    names = "ends open raises close ends-too"
    with pytest.warns(RuntimeWarning, match="ended with"):
        runs = [evaluate(file, tmp_path / str(n), names, workers=n) for n in (1, 3)]
    one, three = ([told(record) for record in run.records()] for run in runs)
    assert sorted(one) == sorted(three)
    status = {record.task: record.status for record in runs[0].records()}
    assert status == {
        "ends": "worker_died",
        "open": "ok",
        "raises": "env_error",
        "close": "ok",
        "ends-too": "worker_died",
    }
    errors = {record.task: record.error.message for record in runs[0].records() if record.error}
    assert "making the env of task 'ends-too'" in errors["ends-too"]
    assert "its process ended with exit code 7" in errors["ends-too"]


def test_info_names_it(file):
    done = command("info", file, "--env-arg", "names=ends open close")
    assert done.code == 0
    shown = re.sub(r"\s+", " ", done.out + done.err)
    assert "Task 'ends' cannot be made, the others can: its process ended with exit code 7" in shown
    assert "3 in 1 suite" in shown


def test_if_all_tasks_are_like_that_the_first_is_named(file, tmp_path):
    with pytest.raises(WorkerDied) as caught:
        evaluate(file, tmp_path / "run", "ends-a ends-b")
    assert "making the env of task 'ends-a'" in str(caught.value)
    assert "the last words of ends-a" in caught.value.log
    assert not (tmp_path / "run").exists()


def test_if_many_are_the_last_one_is_named(file, tmp_path):
    with pytest.raises(WorkerDied, match="making the env of task 'ends-d'"):
        evaluate(file, tmp_path / "run", "open ends-a ends-b ends-c ends-d ends-e close")


def test_the_limit_is_that_of_one_env(file, tmp_path):
    run = evaluate(
        file, tmp_path / "run", "slow-a slow-b slow-c slow-d", workers=1, limits=Limits(start=5.0)
    )
    assert {record.status for record in run.records()} == {"ok"}


def test_one_that_hangs(file, tmp_path):
    limits = Limits(start=5.0)
    with pytest.warns(RuntimeWarning, match="ended with"):
        run = evaluate(file, tmp_path / "run", "open hangs close", workers=1, limits=limits)
    status = {record.task: record.status for record in run.records()}
    assert status == {"open": "ok", "hangs": "timeout", "close": "ok"}
    with pytest.raises(WorkerTimeout, match="making the env of task 'hangs'"):
        evaluate(file, tmp_path / "other", "hangs", limits=limits)
