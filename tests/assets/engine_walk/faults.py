"""Walks that misbehave in episodes with an odd seed, or in the constructor of one task."""

import os
import resource
import time
from pathlib import Path

import numpy as np

from .walk import Walk  # noqa: TID252

STEP = 7


def make_faulty(task, where, what, armed="", every=False):
    if where == "constructor" and task.name == "mute" and is_armed(armed):
        WAYS[what]()
    return Faulty(task, where, what, armed, every)


class Faulty(Walk):
    def __init__(self, task, where, what, armed, every):
        super().__init__(task)
        self.where = where
        self.what = what
        self.armed = armed
        self.every = every

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        if self.due("reset"):
            if self.what in ANSWERS:
                return ANSWERS[self.what]([observation, info])
            WAYS[self.what]()
        return observation, info

    def step(self, action):
        due = self.count + 1 == STEP and self.due("step")
        if due and self.what in WAYS:
            WAYS[self.what]()
        result = super().step(action)
        return ANSWERS[self.what](list(result)) if due else result

    def close(self):
        if self.where == "close":
            WAYS[self.what]()

    def due(self, where):
        chosen = self.every or self.seed % 2 == 1
        return self.where == where and chosen and is_armed(self.armed)


def is_armed(armed):
    """Whether to misbehave: always, or only as long as there is the file, which is removed."""
    if not armed:
        return True
    try:
        Path(armed).unlink()
    except FileNotFoundError:
        return False
    return True


def raises():
    raise RuntimeError("the gripper is stuck")


def quits():
    raise SystemExit("enough")


def hangs():
    while True:
        time.sleep(60)


def exits():
    print("goodbye")
    os._exit(7)


def eats():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    hoard = []
    while True:
        hoard.append(bytearray(2**20))


def replace(index, value):
    def change(result):
        result[index] = value
        return tuple(result)

    return change


def observe(key, value):
    def change(result):
        result[0] = {**result[0], key: value}
        return tuple(result)

    return change


WAYS = {way.__name__: way for way in (raises, quits, hangs, exits, eats)}
ANSWERS = {
    "nan": replace(1, float("nan")),
    "infinite": replace(1, np.float64(-np.inf)),
    "no_number": replace(1, "much"),
    "no_flag": replace(2, np.array([True, False])),
    "no_info": replace(4, None),
    "no_success": replace(4, {"is_success": "perhaps"}),
    "short": lambda result: tuple(result[:-1]),
    "shape": observe("agent_pos", np.zeros(3, np.float32)),
    "dtype": observe("agent_pos", np.zeros(2, complex)),
    "text": observe("hint", 7),
    "nothing": replace(0, None),
}
