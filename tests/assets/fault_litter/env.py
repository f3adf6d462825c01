"""An env that starts processes of every kind and never ends them."""

import os
import signal
import subprocess
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("litter", "leave things lying about", horizon=100)
    yield envhub.Benchmark(name="litter", make=":Litter", suites={"litter": (task,)})


class Litter(gym.Env):
    observation_space = spaces.Box(0, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, task, marker):
        # Whoever descends from here holds the marker open, and is found by it.
        held = os.open(marker, os.O_RDONLY)
        if os.fork() == 0:
            idle()
        if os.fork() == 0:
            start_daemon()
        if os.fork() == 0:
            start_family()
        subprocess.Popen(["sleep", "1000"], pass_fds=(held,), start_new_session=True)
        wait_for_all(held)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        if action:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(4, np.float32), 0.0, False, False, {}


def idle():
    while True:
        time.sleep(1)


def deafen():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def start_daemon():
    """As daemons do: two forks, a session and a directory of its own; and deaf to signals."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir("/")
    deafen()
    idle()


def start_family():
    """A child with a child with a child, in groups of their own, all deaf."""
    deafen()
    for _ in range(2):
        os.setpgid(0, 0)
        if os.fork() != 0:
            break
    idle()


def wait_for_all(held):
    """Until all six are there: an idler, a daemon, a family of three, and `sleep`."""
    target = os.readlink(f"/proc/self/fd/{held}")
    mine = str(os.getpid())
    while sum(pid != mine and holds(pid, target) for pid in descendants(os.getppid())) < 6:
        time.sleep(0.005)


def descendants(pid):
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        for child in children:
            yield child
            yield from descendants(child)


def holds(pid, target):
    try:
        return target in [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
