"""Open every task of a suite of LIBERO-PRO, let it settle and take a step; draw them on a sheet.

    python tests/support/libero_sheet.py SUITE ASSETS SHEET.png

Prints a line per task: its name, its instruction, whether the goal held then, how far an object
moved while it came to rest (in metres), and the spread of the frame's pixels.
"""

import json
import sys
from typing import Any

import imageio.v3 as iio
import numpy as np
from envhub_libero.pro_env import make
from envhub_libero.pro_tasks import suites

STILL = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
SIZE = 256
COLUMNS = 5


def look(task: Any, assets: str) -> tuple[list[Any], np.ndarray]:
    env = make(task, assets=assets, size=SIZE, settling=0, cameras="image=agentview")
    shown, env.observing = env.observing, frozenset()
    env.reset(seed=0, options={"init_state": 0})
    before = places(env)
    for left in range(10, -1, -1):
        env.observing = frozenset() if left else shown
        seen, _, success, *_ = env.step(STILL)
    moved = np.abs(places(env) - before).max()
    frame = seen["pixels"]["image"][::-1, ::-1]
    env.close()
    return [task.name, task.description, success, round(float(moved), 3), float(frame.std())], frame


def places(env: Any) -> np.ndarray:
    """The positions of all bodies that can move freely."""
    model, data = env._simulator._env.sim.model._model, env._simulator._env.sim.data._data
    free = [model.jnt_bodyid[i] for i in range(model.njnt) if model.jnt_type[i] == 0]
    return np.array(data.xpos[free])


if __name__ == "__main__":
    suite, assets, sheet = sys.argv[1:]
    frames = []
    for task in suites()[suite]:
        told, frame = look(task, assets)
        print(json.dumps(told), flush=True)
        frames.append(frame)
    frames += [np.zeros_like(frames[0])] * (-len(frames) % COLUMNS)
    rows = [np.hstack(frames[i : i + COLUMNS]) for i in range(0, len(frames), COLUMNS)]
    iio.imwrite(sheet, np.vstack(rows))
