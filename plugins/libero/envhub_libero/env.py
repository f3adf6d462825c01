"""One LIBERO task as a Gymnasium env.

MuJoCo is imported by the first reset, OpenGL by the first frame, and neither of them before.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from envhub import Task
from envhub.errors import ContractError, UnknownName
from envhub_libero.simulator import Files, Simulator, find_libero, return_memory

Array = np.ndarray[Any, Any]
Observation = dict[str, Any]

PUBLISHED_CAMERAS = "image=agentview,image2=robot0_eye_in_hand"
CAMERAS = (
    "agentview", "robot0_eye_in_hand", "frontview", "birdview", "sideview", "robot0_robotview",
)  # fmt: skip
"""The cameras that all of LIBERO's scenes have."""
CONTROL = ("relative", "absolute")
_FOLDERS = ("articulated_objects", "scenes", "textures")
_MAX_SIZE = 4096
_MAX_SETTLING = 1000
_LEAF = re.compile(r"[A-Za-z0-9_]{1,50}")
_REACH = 2.0
"""Metres: no pose that the arm can reach is farther from the world's origin."""
_STATE: dict[str, dict[str, tuple[int, ...]]] = {
    "eef": {"pos": (3,), "quat": (4,), "mat": (3, 3)},
    "gripper": {"qpos": (2,), "qvel": (2,)},
    "joints": {"pos": (7,), "vel": (7,)},
}
"""The shapes of the robot's state."""


def make(
    task: Task,
    assets: str | None = None,
    cameras: str = PUBLISHED_CAMERAS,
    size: int = 256,
    control: str = "relative",
    settling: int = 10,
    scene_seed: int | None = None,
) -> "Libero":
    """Make the env of a task.

    Args:
        task: One of the 130 tasks.
        assets: The directory of LIBERO's meshes, which EnvHub finds before a worker starts.
        cameras: The frames below `pixels` and the cameras that draw them: `image=agentview,...`.
        size: Width and height of the frames.
        control: `relative`: actions change the hand's pose. `absolute`: actions are poses.
        settling: The number of steps at the start of an episode until objects are at rest.
        scene_seed: Places the fixtures in every episode; None: the seed of the episode.
    """
    return open_task(task, find_files, assets, cameras, size, control, settling, scene_seed)


def spaces_of(
    task: Task,
    assets: str | None = None,
    cameras: str = PUBLISHED_CAMERAS,
    size: int = 256,
    control: str = "relative",
    settling: int = 10,
    scene_seed: int | None = None,
) -> tuple[Any, Any]:
    """Return the observation space and the action space of a task, without making its env."""
    _check(cameras, size, control, settling, scene_seed)
    return _declared_spaces(cameras, size, control)


def open_task(
    task: Task,
    files: Callable[[Task], Files],
    assets: str | None,
    cameras: str,
    size: int,
    control: str,
    settling: int,
    scene_seed: int | None,
) -> "Libero":
    """Make the env of a task whose files a function finds; the rest is as for `make`."""
    _check(cameras, size, control, settling, scene_seed)
    frames = _parse_cameras(cameras)
    return Libero(task, files, assets, frames, size, control, settling, scene_seed)


def find_files(task: Task) -> Files:
    """Return the files of one of LIBERO's own tasks."""
    folder, libero = str(task.args["folder"]), find_libero()
    return Files(
        libero / "bddl_files" / folder / f"{task.name}.bddl",
        libero / "init_files" / folder / f"{task.name}.pruned_init",
    )


@cache
def _declared_spaces(cameras: str, size: int, control: str) -> tuple[Any, Any]:
    """The same objects for all tasks, which have the same spaces."""
    return _observation_space(_parse_cameras(cameras), size), _action_space(control)


def _check(cameras: str, size: int, control: str, settling: int, scene_seed: int | None) -> None:
    for camera in _parse_cameras(cameras).values():
        if camera not in CAMERAS:
            advice = f"The cameras are {', '.join(CAMERAS)}."
            raise UnknownName("camera", camera, CAMERAS, advice=advice)
    if control not in CONTROL:
        raise ContractError(f"control must be 'relative' or 'absolute', found {control!r}.")
    _check_whole("size", size, 1, _MAX_SIZE)
    _check_whole("settling", settling, 0, _MAX_SETTLING)
    if scene_seed is not None:
        _check_whole("scene_seed", scene_seed, 0, 2**32 - 1)


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ContractError(f"{name} must be a whole number from {low} to {high}, found {value!r}.")


def _parse_cameras(text: object) -> dict[str, str]:
    pairs = [part.partition("=") for part in str(text).split(",")]
    names = [name.strip() for name, _, _ in pairs]
    if not all(_LEAF.fullmatch(name) and equals for name, equals, _ in pairs) or len(
        set(names)
    ) != len(names):
        raise ContractError(
            f"cameras must name frames and their cameras, as in {PUBLISHED_CAMERAS}; "
            f"found {text!r}."
        )
    return {name: camera.strip() for name, (_, _, camera) in zip(names, pairs, strict=True)}


class Libero(gym.Env[Observation, Array]):
    """One task. Every reset starts from one of the stored initial states."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    render_mode = "rgb_array"
    observing: frozenset[str]

    def __init__(
        self,
        task: Task,
        files: Callable[[Task], Files],
        assets: str | None,
        cameras: dict[str, str],
        size: int,
        control: str,
        settling: int,
        scene_seed: int | None,
    ) -> None:
        # Copies, because each env's spaces have a random generator of their own.
        self.observation_space = _observation_space(cameras, size)
        self.action_space = _action_space(control)
        self.observing = frozenset(f"pixels/{name}" for name in cameras)
        self.task_description = task.description
        self._task = task
        self._files = files
        self._assets = assets
        self._cameras = cameras
        self._size = size
        self._absolute = control == "absolute"
        self._settling = settling
        self._scene_seed = scene_seed
        self._simulator: Simulator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the first reset builds the simulator.

        The option `init_state` is the index of a stored state. Without it the seed chooses one.
        """
        super().reset(seed=seed)
        if self._simulator is None:
            self._simulator = self._build()
        given = (options or {}).get("init_state")
        chosen = int(self.np_random.integers(self._task.init_states)) if given is None else given
        raw = self._simulator.reset(
            seed if self._scene_seed is None else self._scene_seed,
            chosen,
            settling=self._settling,
            absolute=self._absolute,
            drawing=self._drawing(),
        )
        return self._observe(raw), {"is_success": False, "init_state": chosen}

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step. The goal's first success ends the episode; LIBERO never truncates."""
        raw, reward, success = self._running().step(action, self._drawing())
        return self._observe(raw), reward, success, False, {"is_success": success}

    def render(self) -> Array:
        """Draw an upright frame of the first camera."""
        frame = self._running().render(next(iter(self._cameras.values())))
        return np.ascontiguousarray(frame[::-1, ::-1])

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data, for perturbations. Each reset makes new ones."""
        return self._running().mujoco()

    def observe(self) -> Observation:
        """Look again, after a change, at the state as it is now.

        LIBERO's own observations are sensed where a control step begins; these where it has ended.
        """
        return self._observe(self._running().look(self._drawing()))

    def close(self) -> None:
        """Free the simulator and the GL context; the next reset builds new ones."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            simulator.close()
            del simulator
            return_memory()

    def _build(self) -> Simulator:
        assets, cameras = check_assets(self._assets), dict.fromkeys(self._cameras.values())
        return Simulator(self._files(self._task), assets, cameras, self._size)

    def _drawing(self) -> frozenset[str]:
        return frozenset(
            camera for name, camera in self._cameras.items() if f"pixels/{name}" in self.observing
        )

    def _observe(self, raw: Any) -> Observation:
        return {
            "pixels": {name: raw[f"{camera}_image"] for name, camera in self._cameras.items()},
            "robot_state": {
                "eef": {
                    "pos": raw["robot0_eef_pos"],
                    "quat": raw["robot0_eef_quat"],
                    "mat": self._running().orientation(),
                },
                "gripper": {"qpos": raw["robot0_gripper_qpos"], "qvel": raw["robot0_gripper_qvel"]},
                "joints": {"pos": raw["robot0_joint_pos"], "vel": raw["robot0_joint_vel"]},
            },
        }

    def _running(self) -> Simulator:
        if self._simulator is None:
            raise gym.error.ResetNeeded("Call reset() first.")
        return self._simulator


def check_assets(given: str | None) -> Path:
    """Return the directory of LIBERO's meshes.

    Raises:
        ContractError: It was not named, or there are no meshes in it.
    """
    if given is None:
        raise ContractError("LIBERO needs the argument assets: the directory of its meshes.")
    folder = Path(given)
    missing = [name for name in _FOLDERS if not (folder / name).is_dir()]
    if missing:
        raise ContractError(
            f"{folder} does not hold LIBERO's meshes: it has no directory {missing[0]!r}. Name a "
            "copy of the Hub dataset lerobot/libero-assets."
        )
    return folder


def _action_space(control: str) -> Any:
    if control == "relative":
        return spaces.Box(-1.0, 1.0, (7,), np.float32)
    high = np.array([_REACH] * 3 + [np.pi] * 3 + [1.0], np.float32)
    return spaces.Box(-high, high, dtype=np.float32)


def _observation_space(cameras: dict[str, str], size: int) -> Any:
    frame = (size, size, 3)
    state: dict[str, Any] = {}
    for part, shapes in _STATE.items():
        boxes: dict[str, Any] = {
            name: spaces.Box(-np.inf, np.inf, shape, np.float64) for name, shape in shapes.items()
        }
        state[part] = spaces.Dict(boxes)
    frames: dict[str, Any] = {name: spaces.Box(0, 255, frame, np.uint8) for name in cameras}
    return spaces.Dict({"pixels": spaces.Dict(frames), "robot_state": spaces.Dict(state)})
