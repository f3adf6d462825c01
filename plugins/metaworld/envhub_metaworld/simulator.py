"""Meta-World's own envs: imported late, built once, and reset without physics that nobody sees."""

import ctypes
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from envhub.errors import ContractError

PUBLISHED_CAMERA = "corner2"
# Published checkpoints were trained on frames from here, not from where the scene has the camera.
_PUBLISHED_POSITION = (0.75, 0.075, 0.7)
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # malloc.h
_COMPARED = "3.1.1"
"""The version whose episodes were compared with and without the first placement's physics."""
_STALE_GOAL = frozenset({"SawyerPushEnvV3", "SawyerPushBackEnvV3"})
"""Their first frame shows the goal where the first placement's physics had put it."""


def build(name: str) -> Any:
    """Meta-World's own env of a task, with a new goal at every reset.

    `MT1` would build several to sample goals from; setting what it sets gives the same episodes.
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


def place_anew(simulator: Any) -> tuple[Any, dict[str, Any]]:
    """Reset a simulator: the first state and info of an episode.

    Meta-World places everything twice, each time with 250 steps of physics that bring the hand to
    where it begins, and between the two it sets all physics back. Only the random numbers of the
    first placement, and where it put things, are left for the second: the state after it is the
    same, bit by bit, without the first one's physics.
    """
    if _compared() and type(simulator).__name__ not in _STALE_GOAL:
        simulator.reset_model = lambda: _place_at_rest(simulator)
    try:
        return simulator.reset()  # type: ignore[no-any-return]
    finally:
        vars(simulator).pop("reset_model", None)


def import_metaworld() -> Any:
    """Meta-World, imported without OpenGL.

    While it is imported, MuJoCo loads the GL library that `MUJOCO_GL` names. Where that is not
    installed, runs without pixels are to work nevertheless.

    Raises:
        ContractError: It is not installed.
    """
    named = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        import metaworld
    except ModuleNotFoundError as exc:
        raise ContractError(
            f"Meta-World cannot be imported here: {exc}. Install it with "
            "pip install 'envhub-metaworld[sim]', or run with --runtime isolated."
        ) from exc
    finally:
        del os.environ["MUJOCO_GL"]
        if named is not None:
            os.environ["MUJOCO_GL"] = named
    return metaworld


@cache
def _compared() -> bool:
    try:
        return version("metaworld") == _COMPARED
    except PackageNotFoundError:
        return False


def _place_at_rest(simulator: Any) -> Any:
    """The first of two placements, without physics."""
    del simulator.reset_model  # the second is the class's own
    simulator.do_simulation = lambda *_: None
    try:
        return simulator.reset_model()
    finally:
        del simulator.do_simulation


def _return_large_memory() -> None:
    """Let the C library give a model's 20 MB back to the system when it is freed.

    By default it learns to keep them, and over 50 models they become pieces of which none fits.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 4 * 2**20)
    libc.mallopt(_M_TRIM_THRESHOLD, 8 * 2**20)  # fixing one would leave the other at 128 KB
