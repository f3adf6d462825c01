"""Attacks, harmless by construction: they write marker files below a temporary directory, read
planted secrets, and connect to loopback ports that the test opened. None runs without a sandbox."""

import os
import subprocess
import sys
from pathlib import Path

from support.forked import plain_text, run_command

ENV = """
import gymnasium as gym
import numpy as np
import envhub
from envhub import Benchmark, Task

{top}

class Env(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {{"is_success": True}}


@envhub.hookimpl
def envhub_benchmarks():
    yield Benchmark("attack", ":make", {{"attack": (Task("attack", "attack", 5),)}}{more})


def make(task):
    return Env()


{bottom}
"""


def env_file(top: str = "", bottom: str = "", more: str = "") -> str:
    """An env file that is a good benchmark, and does something else besides."""
    return ENV.format(top=top, bottom=bottom, more=f", {more}" if more else "")


def envhub(
    *arguments: object, cwd: Path | None = None, **more: str
) -> "subprocess.CompletedProcess[str]":
    """The command, with the variables of the test and some more."""
    given = {**os.environ, **more}
    done = run_command(arguments, directory=cwd or Path.cwd(), variables=given)
    texts = map(plain_text, (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, *texts)


def python(code: str, *arguments: object, **more: str) -> "subprocess.CompletedProcess[str]":
    """A program."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
