"""Meta-World's own loop with its scripted experts, and nothing of EnvHub, to compare with.

    python tests/metaworld_bare.py EPISODES [--mt1]

Names of tasks come through stdin in cells of 32 bytes, so that several processes can share a pipe,
and each takes the next task when it is free. Records go to stdout, one a line.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

CELL = 32
HORIZON = 500


def cells(names: list[str]) -> bytes:
    """What to write into the pipe."""
    return b"".join(name.encode().ljust(CELL) for name in names)


def published(name: str, **options: Any) -> Any:
    """An env as published loops make it."""
    import metaworld

    benchmark = metaworld.MT1(name)
    env = benchmark.train_classes[name](**options)
    env.set_task(benchmark.train_tasks[0])
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    return env


def quick(name: str, **options: Any) -> Any:
    """The same env without needless constructors."""
    import metaworld

    env = metaworld.ALL_V3_ENVIRONMENTS[name](**options)
    env._set_task_called, env._partially_observable = True, False
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    del env.sawyer_observation_space
    return env


def play(env: Any, name: str, seed: int) -> dict[str, Any]:
    """One episode of the task's expert."""
    from metaworld.policies import ENV_POLICY_MAP

    expert = ENV_POLICY_MAP[name]()
    env.seed(seed)
    state, _ = env.reset()
    total, success, steps = 0.0, False, 0
    while steps < HORIZON and not success:
        state, reward, _, _, info = env.step(expert.get_action(state))
        steps, total, success = steps + 1, total + float(reward), bool(info["success"])
    return {"task": name, "seed": seed, "success": success, "steps": steps, "return": total}


def frames(name: str, seed: int, steps: int, camera: str, size: int) -> Iterator[Any]:
    """The frame after a reset and after each of some steps, as published loops show it."""
    import numpy as np

    options = {"render_mode": "rgb_array", "camera_name": camera, "width": size, "height": size}
    env = published(name, **options)
    if camera == "corner2":
        env.model.cam_pos[2] = [0.75, 0.075, 0.7]
    env.seed(seed)
    env.reset()
    for step in range(steps + 1):
        if step:
            env.step(np.full(4, 0.5, np.float32))
        frame = env.render()
        yield np.flip(frame, (0, 1)) if camera == "corner2" else frame
    env.close()


def play_all(names: Iterator[str], make: Callable[[str], Any], episodes: int) -> None:
    for name in names:
        env = make(name)
        for seed in range(episodes):
            print(json.dumps(play(env, name, seed)))
        env.close()


if __name__ == "__main__":
    taken = (cell.decode().strip() for cell in iter(lambda: os.read(0, CELL), b""))
    play_all(taken, published if "--mt1" in sys.argv else quick, int(sys.argv[1]))
