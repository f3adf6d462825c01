"""One Meta-World task as a Gymnasium env.

MuJoCo is imported by the first reset, OpenGL by the first frame, and neither of them before.
"""

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from envhub import Task
from envhub.errors import ContractError, UnknownName
from envhub.machine.gl import cannot_draw, choose_backend
from envhub_metaworld.simulator import PUBLISHED_CAMERA, build, reset_simulator

Array = np.ndarray[Any, Any]
Observation = dict[str, Array]

CAMERAS = ("topview", "corner", "corner2", "corner3", "corner4", "behindGripper", "gripperPOV")
"""The cameras of Meta-World's scenes."""
_MAX_SIZE = 4096
_HAND = ((-0.525, 0.348, -0.0525), (0.525, 1.025, 0.7))
"""Meta-World clips the hand's position to this box."""


def make(task: Task, camera: str = PUBLISHED_CAMERA, size: int = 480) -> "MetaWorld":
    """Make the env of a task.

    Args:
        task: One of the 50 tasks.
        camera: The camera that draws `pixels`.
        size: Width and height of `pixels`.
    """
    _check(camera, size)
    return MetaWorld(task.name, camera, size)


def spaces_of(task: Task, camera: str = PUBLISHED_CAMERA, size: int = 480) -> tuple[Any, Any]:
    """Return the observation space and the action space of a task, without making its env."""
    _check(camera, size)
    return _declared_spaces(size)


@cache
def _declared_spaces(size: int) -> tuple[Any, Any]:
    """The same objects for all tasks, which have the same spaces."""
    return _observation_space(size), _action_space()


def _action_space() -> Any:
    return spaces.Box(-1.0, 1.0, (4,), np.float32)


def _check(camera: str, size: int) -> None:
    if camera not in CAMERAS:
        advice = f"The cameras are {', '.join(CAMERAS)}."
        raise UnknownName("camera", str(camera), CAMERAS, advice=advice)
    if type(size) is not int or not 1 <= size <= _MAX_SIZE:
        raise ContractError(f"size must be a whole number from 1 to {_MAX_SIZE}, found {size!r}.")


class MetaWorld(gym.Env[Observation, Array]):
    """One task. Every reset places the goal and the objects at random, following its seed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80, "render_leaf": "pixels"}  # noqa: RUF012
    render_mode = "rgb_array"
    observing: frozenset[str] = frozenset({"pixels", "agent_pos", "environment_state"})

    def __init__(self, name: str, camera: str, size: int) -> None:
        # Copies, because each env's spaces have a random generator of their own.
        self.observation_space = _observation_space(size)
        self.action_space = _action_space()
        self._name = name
        self._camera = camera
        self._size = size
        self._blank = np.zeros((size, size, 3), np.uint8)
        self._simulator: Any = None
        self._renderer: Renderer | None = None
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the first reset builds the simulator."""
        if self._simulator is None:
            self._simulator = build(self._name)
        if seed is not None:
            self._simulator.seed(seed)  # its own reset ignores a seed
        state, info = reset_simulator(self._simulator)
        return self._observe(state), info

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a step. Meta-World clips the action, continues after success, truncates at 500."""
        state, reward, terminated, truncated, info = self._running().step(action)
        info["is_success"] = bool(info["success"])
        return self._observe(state), reward, terminated, truncated, info

    def render(self) -> Array:
        """Draw the frame that `pixels` would hold now."""
        if self._renderer is None:
            self._renderer = Renderer(self._running(), self._camera, self._size)
        return self._renderer.draw()

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data, for perturbations."""
        simulator = self._running()
        return simulator.model, simulator.data

    def observe(self) -> Observation:
        """Look again, after a change; the state is that of the last reset or step."""
        return self._observe(self._state)

    def close(self) -> None:
        """Free the simulator and the GL context; the next reset builds new ones."""
        renderer, self._renderer, self._simulator = self._renderer, None, None
        if renderer is not None:
            renderer.close()

    def _observe(self, state: Array) -> Observation:
        self._state = state
        return {
            "pixels": self.render() if "pixels" in self.observing else self._blank,
            "agent_pos": state[:4],
            "environment_state": state,
        }

    def _running(self) -> Any:
        if self._simulator is None:
            raise gym.error.ResetNeeded("Call reset() first.")
        return self._simulator


class Renderer:
    """Draws frames of a simulator. Owns the GL context."""

    def __init__(self, simulator: Any, camera: str, size: int) -> None:
        """Create the context.

        Raises:
            ContractError: Drawing does not work on this machine; the error says what to install.
        """
        backend = choose_backend()
        from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

        model = simulator.model
        self._published = camera == PUBLISHED_CAMERA
        self._camera = model.camera(camera).id
        buffer = model.vis.global_
        buffer.offwidth, buffer.offheight = max(buffer.offwidth, size), max(buffer.offheight, size)
        try:
            # The viewer that Meta-World itself uses, so that the pixels are the same.
            self._viewer: Any = OffScreenViewer(model, simulator.data, size, size)
        except Exception as exc:
            raise cannot_draw(f"{backend}: {exc}") from exc

    def draw(self) -> Array:
        """Draw a frame of the current state."""
        self._viewer.make_context_current()  # another env here may have made its own current
        frame = self._viewer.render("rgb_array", self._camera)
        # Published frames are rotated by 180 degrees, because this camera is mounted upside down.
        return np.ascontiguousarray(frame[::-1, ::-1] if self._published else frame)

    def close(self) -> None:
        """Free the drawing resources, then the context that they belong to."""
        self._viewer.make_context_current()
        self._viewer.con.free()
        self._viewer.free()


def _observation_space(size: int) -> Any:
    """Return the observation space. Meta-World's own is wrong: it bounds the goal by zero.

    The state holds the hand, the gripper's opening and up to two objects, now and one step ago;
    then the goal.
    """
    low, high = (np.array([*hand, grip]) for hand, grip in zip(_HAND, (0.0, 1.0), strict=True))
    objects, goal = np.full(14, np.inf), np.full(3, np.inf)
    return spaces.Dict(
        {
            "pixels": spaces.Box(0, 255, (size, size, 3), np.uint8),
            "agent_pos": spaces.Box(low, high, dtype=np.float64),
            "environment_state": spaces.Box(
                np.hstack([low, -objects, low, -objects, -goal]),
                np.hstack([high, objects, high, objects, goal]),
                dtype=np.float64,
            ),
        }
    )
