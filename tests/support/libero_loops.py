"""Episodes of LIBERO's own loop and of the plugin's envs, as lines that can be compared.

    python tests/support/libero_loops.py own|ours[_pro] ASSETS SIZE STEPS CHUNK,... < jobs.json

A job is [folder, task, [seed, ...]], and an episode's initial state has the number of its seed.
With `_pro` the files are LIBERO-PRO's, and a task is named by its file. All episodes of a job are
played for each CHUNK. Each of their lines holds a digest of everything that the simulator's state
consists of, for the first observation and each step; and where the policy would look, every CHUNK
steps, digests of what the cameras showed and of what is drawn now.
"""

import hashlib
import importlib.util
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

CAMERAS = ("agentview", "robot0_eye_in_hand")
SETTLING = 10
LEAVES = ("eef_pos", "eef_quat", "gripper_qpos", "gripper_qvel", "joint_pos", "joint_vel")


def actions(seed: int, steps: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (steps, 7)).astype(np.float32)


def digest(*parts: Any) -> str:
    joined = hashlib.sha256()
    for part in parts:
        joined.update(np.ascontiguousarray(part).tobytes())
    return joined.hexdigest()[:16]


def state_digest(sim: Any, reward: float, success: bool, seen: list[Any]) -> str:
    """Of time, positions and velocities, what the model says, the outcome and the robot's state."""
    model = sim.model._model
    placed = (model.body_pos, model.body_quat, model.site_rgba, sim.data._data.qacc_warmstart)
    return digest(sim.get_state().flatten(), *placed, float(reward), bool(success), *seen)


def observed(step: int, chunk: int) -> bool:
    return step % chunk == 0


def seen_by_chunks(lines: list[list[str]], chunk: int) -> list[list[str]]:
    """The lines of an episode whose every step was looked at, as they would be with chunks."""
    return [line if observed(step, chunk) else line[:1] for step, line in enumerate(lines)]


# LIBERO's own loop: nothing of EnvHub


def import_own(assets: str) -> Any:
    place = tempfile.mkdtemp()
    Path(place, "config.yaml").write_text(json.dumps({"assets": assets}))
    os.environ["LIBERO_CONFIG_PATH"] = place
    import libero.libero

    libero.libero._assets_path_cache = assets
    # robosuite logs to one file in /tmp, which may be another user's.
    opened, logging.FileHandler = logging.FileHandler, lambda *_, **__: logging.NullHandler()
    try:
        from libero.libero.envs import OffScreenRenderEnv
    finally:
        logging.FileHandler = opened
    return OffScreenRenderEnv


def own_files(folder: str, task: str, package: str = "libero") -> tuple[str, str]:
    (place,) = importlib.util.find_spec(package).submodule_search_locations
    place = Path(place, package)
    return (
        str(place / "bddl_files" / folder / f"{task}.bddl"),
        str(place / "init_files" / folder / f"{task}.pruned_init"),
    )


def own_init_states(path: str) -> Any:
    """As LIBERO loads them, with torch's place taken by the pickle module."""
    import pickle
    import zipfile

    return pickle.loads(zipfile.ZipFile(path).read("archive/data.pkl"))


def own_episodes(
    job: list[Any], make: Any, size: int, steps: int, chunks: Any, package: str
) -> Iterator[Any]:
    folder, task, seeds = job
    bddl, states = own_files(folder, task, package)
    options = {"camera_heights": size, "camera_widths": size, "camera_names": list(CAMERAS)}
    env = make(bddl_file_name=bddl, **options)
    for number, (chunk, seed) in enumerate(product(chunks, seeds)):
        if number and env.env.object_property_initializers:
            # LIBERO never empties this list, so a second reset draws other random numbers.
            env.close()
            env = make(bddl_file_name=bddl, **options)
        env.seed(seed)
        env.reset()
        seen = env.set_init_state(own_init_states(states)[seed % 50])
        for _ in range(SETTLING):
            seen, reward, success, _ = env.step([0, 0, 0, 0, 0, 0, -1])
        lines = [own_line(env, seen, 0.0, False, frames=True)]
        for step, action in enumerate(actions(seed, steps), start=1):
            seen, reward, success, _ = env.step(action)
            lines.append(own_line(env, seen, reward, success, frames=observed(step, chunk)))
        yield [task, seed, chunk, lines]
    env.close()


def own_line(env: Any, seen: Any, reward: float, success: bool, *, frames: bool) -> list[str]:
    robot = [seen[f"robot0_{leaf}"] for leaf in LEAVES] + [env.robots[0].controller.ee_ori_mat]
    state = state_digest(env.sim, reward, success, robot)
    if not frames:
        return [state]
    shown = [seen[f"{camera}_image"] for camera in CAMERAS]
    height, width, _ = shown[0].shape
    drawn = env.sim.render(camera_name=CAMERAS[0], width=width, height=height)
    return [state, *map(digest, shown), digest(drawn[::-1, ::-1])]


# The plugin's envs


def our_task(folder: str, name: str, package: str) -> tuple[Any, Any]:
    """How its env is made, and the task."""
    if package == "libero":
        from envhub_libero.env import make
        from envhub_libero.tasks import suites

        return make, next(task for task in suites()[folder] if task.name == name)
    from envhub_libero.pro_env import make as make_pro
    from envhub_libero.pro_tasks import suites as pro_suites

    tasks = (task for tasks in pro_suites().values() for task in tasks)
    wanted = {"folder": folder, "file": name}
    return make_pro, next(task for task in tasks if task.args == wanted)


def our_episodes(
    job: list[Any], assets: str, size: int, steps: int, chunks: Any, package: str
) -> Iterator[Any]:
    folder, name, seeds = job
    make, task = our_task(folder, name, package)
    env = make(task, assets=assets, size=size)
    all_frames = env.observing
    for chunk, seed in product(chunks, seeds):
        env.observing = all_frames
        seen, info = env.reset(seed=seed, options={"init_state": seed % 50})
        lines = [our_line(env, seen, 0.0, info["is_success"], frames=True)]
        for step, action in enumerate(actions(seed, steps), start=1):
            env.observing = all_frames if observed(step, chunk) else frozenset()
            seen, reward, success, _, info = env.step(action)
            assert success == info["is_success"]
            lines.append(our_line(env, seen, reward, success, frames=observed(step, chunk)))
        yield [name, seed, chunk, lines]
    env.close()


def our_line(env: Any, seen: Any, reward: float, success: bool, *, frames: bool) -> list[str]:
    state = seen["robot_state"]
    robot = [state["eef"]["pos"], state["eef"]["quat"], *state["gripper"].values()]
    robot += [*state["joints"].values(), state["eef"]["mat"]]
    state = state_digest(env._simulator._env.sim, reward, success, robot)
    if not frames:
        return [state]
    return [state, *map(digest, seen["pixels"].values()), digest(env.render())]


def episodes_of(kind: str, assets: str, size: str, steps: str, chunks: str) -> Callable[..., Any]:
    numbers = (int(size), int(steps), tuple(map(int, chunks.split(","))))
    package = "liberopro" if kind.endswith("_pro") else "libero"
    if kind.startswith("ours"):
        return lambda job: our_episodes(job, assets, *numbers, package)
    make = import_own(assets)
    return lambda job: own_episodes(job, make, *numbers, package)


if __name__ == "__main__":
    play = episodes_of(*sys.argv[1:6])
    for job in json.load(sys.stdin):
        for episode in play(job):
            print(json.dumps(episode), flush=True)
