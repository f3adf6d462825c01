"""LeRobot's own evaluation loop on its LIBERO environment, timed: nothing of EnvHub.

    python tests/support/libero_lerobot.py ASSETS FOLDER TASK SIZE STEPS EPISODES

Needs lerobot, hf-libero and what both import. Prints the seconds of each episode, its reset and
settling included. The first one is not printed: it fills caches.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from libero_loops import CAMERAS


class Still(torch.nn.Module):
    """Does nothing, in no time."""

    def reset(self) -> None:
        pass

    def select_action(self, observation: dict[str, Any]) -> torch.Tensor:
        return torch.zeros((len(observation["task"]), 7))


def configure(assets: str) -> None:
    """Write the file without which LIBERO asks questions when it is imported."""
    import importlib.util

    found = importlib.util.find_spec("libero")
    assert found is not None
    folder = Path(next(iter(found.submodule_search_locations or [""])), "libero")
    names = {"bddl_files": "bddl_files", "init_states": "init_files", "datasets": "datasets"}
    config = {key: str(folder / name) for key, name in names.items()}
    place = tempfile.mkdtemp()
    config |= {"benchmark_root": str(folder), "assets": assets}
    Path(place, "config.yaml").write_text(json.dumps(config))
    os.environ["LIBERO_CONFIG_PATH"] = place
    import libero.libero

    libero.libero._assets_path_cache = assets


def make(folder: str, task: str, size: int, steps: int) -> Any:
    from lerobot.envs.libero import create_libero_envs
    from libero.libero import benchmark

    names = [each.name for each in benchmark.get_benchmark_dict()[folder]().tasks]
    number = names.index(task)
    envs = create_libero_envs(
        folder, 1, env_cls=gym.vector.SyncVectorEnv, episode_length=steps,
        camera_name=[f"{camera}_image" for camera in CAMERAS],
        gym_kwargs={
            "task_ids": [number], "obs_type": "pixels_agent_pos",
            "observation_width": size, "observation_height": size,
        },
    )  # fmt: skip
    return envs[folder][number]


def main() -> None:
    assets, folder, task, *numbers = sys.argv[1:]
    size, steps, episodes = map(int, numbers)
    configure(assets)
    from lerobot.envs.configs import LiberoEnv
    from lerobot.envs.factory import make_env_pre_post_processors
    from lerobot.scripts.lerobot_eval import rollout

    torch.set_num_threads(1)
    env, seconds = make(folder, task, size, steps), []
    before, after = make_env_pre_post_processors(LiberoEnv(), None)
    for number in range(episodes + 1):
        begin = time.perf_counter()
        told = rollout(
            env, Still(), before, after, lambda seen: seen, lambda action: action, [number]
        )
        seconds.append(time.perf_counter() - begin)
        assert told["done"].shape == (1, steps)
    env.close()
    print(json.dumps(seconds[1:]))


if __name__ == "__main__":
    main()
