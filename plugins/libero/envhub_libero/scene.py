"""A hard reset that is exact and does not repeat what cannot have changed.

At a hard reset robosuite generates the scene's XML again, byte for byte the same, compiles it,
uploads every mesh and texture to a new GL context, and draws each camera three times before anybody
looks. Here the compiled model and the GL resources are kept from reset to reset, and a camera
draws only when its frame is asked for. Everything else of the reset is LIBERO's own.

Imports robosuite: `simulator.import_libero` must have run.
"""

import atexit
import copy
from functools import cache
from typing import Any

import mujoco
import numpy as np
from robosuite.utils import binding_utils

from envhub.machine.gl import cannot_draw, choose_backend

_MAX_GEOMETRIES = 1000
"""As in robosuite's own render context."""


class KeptScene:
    """What an env keeps from reset to reset, and the cameras that must draw now."""

    def __init__(self) -> None:
        self.drawing: frozenset[str] = frozenset()
        self.gl: KeptGL | None = None
        self._xml = ""
        self._model: Any = None

    def model(self, xml: str) -> Any:
        """Return a new copy of the compiled model of a scene."""
        if xml != self._xml:
            self.close()
            self._model = mujoco.MjModel.from_xml_string(xml)
            self._xml = xml
        return copy.copy(self._model)

    def resources(self, model: Any, size: int) -> "KeptGL":
        """Return the GL resources that draw this scene; the first frame creates them."""
        if self.gl is None:
            self.gl = KeptGL(model, size)
        self.gl.make_current()
        return self.gl

    def close(self) -> None:
        """Free the model and the GL resources."""
        gl, self.gl = self.gl, None
        self._xml, self._model = "", None
        if gl is not None:
            gl.close()


class KeptGL:
    """A GL context, with the meshes and textures of one scene."""

    def __init__(self, model: Any, size: int) -> None:
        """Create the context and upload the scene.

        Raises:
            ContractError: Drawing does not work on this machine; the error says what to install.
        """
        buffer = model.vis.global_
        buffer.offwidth, buffer.offheight = max(buffer.offwidth, size), max(buffer.offheight, size)
        backend = choose_backend()
        try:
            self._gl = _context_class(backend)(max_width=size, max_height=size, device_id=-1)
            self.make_current()
            self.context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
        except Exception as exc:
            raise cannot_draw(f"{backend}: {exc}") from exc
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)
        # EGL ends at exit by a handler of its own, registered before this one and so called later.
        atexit.register(self.close)

    def make_current(self) -> None:
        """Make the context current: another env here may have made its own."""
        self._gl.make_current()

    def close(self) -> None:
        """Free the scene's resources, then the context that they belong to."""
        atexit.unregister(self.close)
        self.make_current()
        self.context.free()
        self._gl.free()


class LazyRenderContext(binding_utils.MjRenderContextOffscreen):  # type: ignore[misc]
    """robosuite's render context of one simulation, on GL resources that outlive it."""

    def __init__(self, sim: Any, kept: KeptScene, size: int) -> None:
        self.sim, self.model, self.data = sim, sim.model, sim.data
        self.offscreen, self.device_id = True, -1
        self.scn: Any = None
        self._kept, self._size = kept, size
        sim.forward()  # robosuite's own constructor computes the state once more here
        sim.add_render_context(self)
        self.cam, self.vopt = mujoco.MjvCamera(), mujoco.MjvOption()
        self.cam.fixedcamid, self.cam.type = 0, mujoco.mjtCamera.mjCAMERA_FIXED
        self.pert = mujoco.MjvPerturb()
        self.pert.active, self.pert.select, self.pert.skinselect = 0, 0, -1

    def render(
        self, width: int, height: int, camera_id: Any = None, *, segmentation: bool = False
    ) -> None:
        """Draw; the first time also create what drawing needs."""
        model = self.model._model
        self.con = self._kept.resources(model, self._size).context
        if self.scn is None:
            self.scn = mujoco.MjvScene(model, maxgeom=_MAX_GEOMETRIES)
        super().render(width, height, camera_id, segmentation=segmentation)

    def __del__(self) -> None:
        """Free nothing: the resources are kept."""


class FastReset:
    """Overrides of robosuite's envs, for `fast_class`."""

    kept: KeptScene

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Make what is kept before robosuite's constructor, which already builds the scene."""
        env = super().__new__(cls)
        env.kept = KeptScene()
        return env

    def _initialize_sim(self: Any, xml_string: Any = None) -> None:
        self.sim = binding_utils.MjSim(self.kept.model(xml_string or self.model.get_xml()))
        self.sim.forward()
        self.initialize_time(self.control_freq)

    def _reset_internal(self: Any) -> None:
        if self.sim._render_context_offscreen is None:
            size = max(*self.camera_heights, *self.camera_widths)
            LazyRenderContext(self.sim, self.kept, size)
        super()._reset_internal()  # type: ignore[misc]

    def _create_camera_sensors(
        self: Any, cam_name: str, cam_w: int, cam_h: int, *args: Any, **options: Any
    ) -> Any:
        created = super()._create_camera_sensors(cam_name, cam_w, cam_h, *args, **options)  # type: ignore[misc]
        sensors, names = created
        blank = np.zeros((cam_h, cam_w, 3), np.uint8)
        return [self._gated(cam_name, sensor, blank) for sensor in sensors], names

    def _gated(self, camera: str, sensor: Any, blank: Any) -> Any:
        """Return a sensor that draws only if its camera is asked for.

        robosuite calls it as often as before, so that its timers run as they would.
        """

        def sense(cache: Any) -> Any:
            return sensor(cache) if camera in self.kept.drawing else blank

        sense.__modality__ = sensor.__modality__  # type: ignore[attr-defined]
        return sense

    def close(self) -> None:
        """Free the simulation, then what was kept."""
        super().close()  # type: ignore[misc]
        self.kept.close()


@cache
def fast_class(base: type) -> type:
    """Return a class of LIBERO's envs with the exact fast reset. LIBERO checks the class's name."""
    return type(base.__name__, (FastReset, base), {})


def _context_class(backend: str) -> Any:
    """Return robosuite's class of GL contexts; importing it loads the GL library."""
    if backend == "osmesa":
        from robosuite.renderers.context.osmesa_context import OSMesaGLContext as GLContext
    elif backend == "egl":
        from robosuite.renderers.context.egl_context import EGLGLContext as GLContext
    else:
        from robosuite.renderers.context.glfw_context import GLFWGLContext as GLContext
    return GLContext
