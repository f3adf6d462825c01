"""LIBERO's own loop, timed: nothing of EnvHub.

    python tests/support/libero_speed.py ASSETS FOLDER TASK SIZE STEPS EPISODES
    python tests/support/libero_speed.py ASSETS FOLDER TASK SIZE --resets N own|ours

Prints the seconds of each episode, its reset and settling included, or those of each reset. The
first one is not printed: it fills caches.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from support.libero_loops import CAMERAS, SETTLING, import_own, own_files, own_init_states


def own_env(assets: str, folder: str, task: str, size: int) -> tuple[Any, Any]:
    make = import_own(assets)
    bddl, states = own_files(folder, task)
    options = {"camera_heights": size, "camera_widths": size, "camera_names": list(CAMERAS)}
    return make(bddl_file_name=bddl, **options), own_init_states(states)


def episode(env: Any, states: Any, number: int, steps: int) -> None:
    env.seed(number)
    env.reset()
    env.set_init_state(states[number])
    for _ in range(SETTLING):
        env.step([0, 0, 0, 0, 0, 0, -1])
    for _ in range(steps):
        env.step(np.zeros(7, np.float32))


def our_reset(assets: str, folder: str, task: str, size: int) -> tuple[Callable[[], Any], Any]:
    from envhub_libero.simulator import Simulator

    simulator = Simulator(folder, task, Path(assets), CAMERAS, size)
    return simulator._env.reset, simulator


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    assets, folder, task, size, *rest = sys.argv[1:]
    place = (assets, folder, task, int(size))
    if rest[0] == "--resets":
        if rest[2] == "ours":
            reset, owner = our_reset(*place)
        else:
            owner, _ = own_env(*place)
            reset = owner.reset
        seconds = [timed(reset) for _ in range(int(rest[1]) + 1)]
    else:
        owner, states = own_env(*place)
        steps, episodes = map(int, rest)
        seconds = [timed(lambda n=n: episode(owner, states, n, steps)) for n in range(episodes + 1)]
    owner.close()
    print(json.dumps(seconds[1:]))


if __name__ == "__main__":
    main()
