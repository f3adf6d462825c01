"""Meta-World's own envs: imported late, built once, reset without unneeded physics."""

import ctypes
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from envhub.errors import ContractError

PUBLISHED_CAMERA = "corner2"
# Published checkpoints were trained on frames from this position, not from that of the scene.
_PUBLISHED_POSITION = (0.75, 0.075, 0.7)
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # malloc.h
_COMPARED_VERSION = "3.1.1"
"""The version whose episodes were compared with and without the first placement's physics."""
_STALE_GOAL = frozenset({"SawyerPushEnvV3", "SawyerPushBackEnvV3"})
"""Envs whose first frame shows the goal where the first placement's physics put it."""


def build(name: str) -> Any:
    """Build Meta-World's own env of a task, with a new goal at every reset.

    `MT1` would build several envs to sample goals; setting the same attributes gives the same
    episodes.
    """
    metaworld = import_metaworld()
    _return_large_memory()
    simulator = metaworld.ALL_V3_ENVIRONMENTS[name]()
    simulator._set_task_called = True
    simulator._freeze_rand_vec = False
    simulator.seeded_rand_vec = True
    simulator._partially_observable = False
    del simulator.sawyer_observation_space  # it was computed with the goal hidden
    simulator.model.camera(PUBLISHED_CAMERA).pos[:] = _PUBLISHED_POSITION
    return simulator


def reset_simulator(simulator: Any) -> tuple[Any, dict[str, Any]]:
    """Reset a simulator, and return the first state and info of the episode.

    Meta-World places everything twice, each time with 250 steps of physics that move the hand to
    its start, and resets the physics in between. Only the random numbers and the positions of the
    first placement affect the second one: the final state is bit-identical without the physics of
    the first.
    """
    if _is_compared_version() and type(simulator).__name__ not in _STALE_GOAL:
        simulator.reset_model = lambda: _place_without_physics(simulator)
    try:
        return simulator.reset()  # type: ignore[no-any-return]
    finally:
        vars(simulator).pop("reset_model", None)


def import_metaworld() -> Any:
    """Import Meta-World without OpenGL.

    When it is imported, MuJoCo loads the GL library that `MUJOCO_GL` names. Runs without pixels
    must also work if that library is not installed.

    Raises:
        ContractError: Meta-World is not installed.
    """
    backend = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        import metaworld
    except ModuleNotFoundError as exc:
        raise ContractError(
            f"Meta-World cannot be imported: {exc}. Run with --runtime isolated, or install it in "
            "a clone of EnvHub with: pip install './plugins/metaworld[sim]'"
        ) from exc
    finally:
        del os.environ["MUJOCO_GL"]
        if backend is not None:
            os.environ["MUJOCO_GL"] = backend
    return metaworld


@cache
def _is_compared_version() -> bool:
    try:
        return version("metaworld") == _COMPARED_VERSION
    except PackageNotFoundError:
        return False


def _place_without_physics(simulator: Any) -> Any:
    """Do the first of the two placements, without physics."""
    del simulator.reset_model  # the second placement uses the class's own again
    simulator.do_simulation = lambda *_: None
    try:
        return simulator.reset_model()
    finally:
        del simulator.do_simulation


def _return_large_memory() -> None:
    """Let the C library return a model's 20 MB to the system when the model is freed.

    By default it learns to keep such blocks; over 50 models they become fragments that fit none.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 4 * 2**20)
    libc.mallopt(_M_TRIM_THRESHOLD, 8 * 2**20)  # setting only one would leave the other at 128 KB
