"""Envs of which one misbehaves, once: where, how and which one its arguments say."""

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import envhub

LINE = b"x" * 99 + b"\n"
FLOOD = 200 * 2**20


@envhub.hookimpl
def envhub_benchmarks():
    task = envhub.Task("reach", "reach the goal", horizon=100)
    yield envhub.Benchmark(name="crew", make=":Faulty", suites={"crew": (task,)})


class Faulty(gym.Env):
    observation_space = spaces.Box(0, 1000, (2,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, task, room, where="", what="", row=1, nap=0.0):
        self.room = Path(room)
        self.row = own_row()
        self.fault = (where, what) if self.row == row else None
        self.count = 0
        self.nap = nap if self.row == 0 else 0.0
        self.misbehave("constructor")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.misbehave("reset")
        self.count = 0
        return self.look(), {}

    def step(self, action):
        self.misbehave("step")
        time.sleep(self.nap)
        self.count += 1
        return self.look(), 1.0, False, False, {}

    def close(self):
        if self.fault is None:
            os.write(1, LINE * 3000)  # more than a pipe holds
        with (self.room / "closed").open("a") as file:
            file.write(f"{self.row}\n")
        self.misbehave("close")

    def look(self):
        return np.array([self.row, self.count])

    def misbehave(self, where):
        if not self.fault or self.fault[0] != where or not disarm(self.room):
            return
        print(f"about to do it: {self.fault[1]}")
        WAYS[self.fault[1]]()


def own_row():
    """The index of this env: its outer guard's place among the host's children, by birth."""
    guard = parent(os.getppid())
    host = parent(guard)
    for children in Path(f"/proc/{host}/task").glob("*/children"):
        siblings = children.read_text().split()
        if str(guard) in siblings:
            return siblings.index(str(guard))
    raise LookupError(guard)


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def disarm(room):
    try:
        (room / "armed").unlink()
    except FileNotFoundError:
        return False
    return True


def raises():
    raise RuntimeError("the gripper is stuck")


def hangs():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def exits():
    os._exit(7)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def crashes():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def runs_out_of_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    hoard = []
    while True:
        hoard.append(bytearray(2**20))


def is_killed_for_memory():
    hoard = bytearray(2**28)
    os.kill(os.getpid(), signal.SIGKILL)
    return hoard


def floods():
    for descriptor in (1, 2):
        left = FLOOD
        while left > 0:
            left -= os.write(descriptor, LINE * 600)


def talks():
    os.write(1, LINE * 3000)
    time.sleep(2)


def floods_and_exits():
    floods()
    print("the flood is over")
    os._exit(7)


def floods_on():
    while True:
        floods()


def forks_and_dies():
    if os.fork() == 0:
        while True:
            time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def forks_twice():
    """Both processes go on and answer."""
    os.fork()


WAYS = {way.__name__: way for way in (
    raises, hangs, exits, is_killed, crashes, runs_out_of_memory,
    is_killed_for_memory, floods, talks, floods_and_exits, floods_on, forks_and_dies, forks_twice,
)}  # fmt: skip
