"""One task of LIBERO-PRO: LIBERO's own env on LIBERO-PRO's files."""

from functools import partial
from typing import Any

from envhub import Task
from envhub_libero import env
from envhub_libero.pro_files import check_states, find_files


def make(
    task: Task,
    assets: str | None = None,
    cameras: str = env.PUBLISHED_CAMERAS,
    size: int = 256,
    control: str = "relative",
    settling: int = 10,
    scene_seed: int | None = None,
    states: str = "released",
) -> env.Libero:
    """Make the env of a task.

    Args:
        task: One of the tasks of LIBERO-PRO.
        assets: As of LIBERO, and so the next five.
        cameras: The frames below `pixels` and the cameras that draw them.
        size: Width and height of the frames.
        control: `relative` or `absolute`.
        settling: The number of steps at the start of an episode until objects are at rest.
        scene_seed: Places the fixtures in every episode; None: the seed of the episode.
        states: `released`: the task's own initial states. `base`: where only the instruction was
            changed, those of the task that it was made from, so that episodes are exact pairs.
    """
    check_states(task, states)
    found = partial(find_files, states=states)
    return env.open_task(task, found, assets, cameras, size, control, settling, scene_seed)


def spaces_of(
    task: Task,
    assets: str | None = None,
    cameras: str = env.PUBLISHED_CAMERAS,
    size: int = 256,
    control: str = "relative",
    settling: int = 10,
    scene_seed: int | None = None,
    states: str = "released",
) -> tuple[Any, Any]:
    """Return the observation space and the action space of a task, without making its env."""
    check_states(task, states)
    return env.spaces_of(task, assets, cameras, size, control, settling, scene_seed)
