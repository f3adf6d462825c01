"""Everything that touches MuJoCo: imported late, so that listing tasks needs no simulator."""

import os
from importlib import reload
from pathlib import Path
from typing import Any

import numpy as np
from envhub.machine.gl import cannot_draw, choose_backend

Array = np.ndarray[Any, Any]

SPEED = 0.5
"""Metres per second of the tip at action 1."""
_PHYSICS_STEPS = 10
"""Steps of 10 ms in a control step."""
_SCENE = Path(__file__).with_name("scene.xml")


class Simulator:
    """The scene, its state, and the GL context that draws it."""

    def __init__(self, goal: Array, size: int) -> None:
        """Compile the scene; nothing is drawn yet."""
        self._mujoco = _import_mujoco()
        self._model = self._mujoco.MjModel.from_xml_path(str(_SCENE))
        self._model.site("goal").pos[:2] = goal
        self._data = self._mujoco.MjData(self._model)
        self._size = size
        self._renderer: Any = None

    def reset(self, puck: Array, tip: Array) -> None:
        """Put puck and tip somewhere, at rest."""
        self._mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[:] = [*puck, *tip]
        self._mujoco.mj_forward(self._model, self._data)

    def step(self, action: Array) -> None:
        """Move the tip for a tenth of a second."""
        self._data.ctrl[:] = SPEED * action
        self._mujoco.mj_step(self._model, self._data, _PHYSICS_STEPS)

    def puck(self) -> Array:
        """Return the position of the puck."""
        return np.array(self._data.qpos[:2])

    def tip(self) -> Array:
        """Return the position of the tip."""
        return np.array(self._data.qpos[2:])

    def draw(self) -> Array:
        """Draw a frame of the current state; the first one creates the GL context.

        Raises:
            ContractError: Drawing does not work on this machine; the error says what to install.
        """
        if self._renderer is None:
            backend = choose_backend()
            try:
                reload(self._mujoco.gl_context)  # it was imported without OpenGL
                self._renderer = self._mujoco.Renderer(self._model, self._size, self._size)
            except Exception as exc:
                raise cannot_draw(f"{backend}: {exc}") from exc
        # The last physics step moved the bodies after it had computed where they are. This changes
        # nothing that the next one starts from, so that drawing does not change the episode.
        self._mujoco.mj_kinematics(self._model, self._data)
        self._renderer.update_scene(self._data, camera="top")
        return np.array(self._renderer.render())

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data."""
        return self._model, self._data

    def close(self) -> None:
        """Free the GL context."""
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            renderer.close()


def _import_mujoco() -> Any:
    """Import MuJoCo without OpenGL, which runs without pixels do not need."""
    backend = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        import mujoco
    finally:
        del os.environ["MUJOCO_GL"]
        if backend is not None:
            os.environ["MUJOCO_GL"] = backend
    return mujoco
