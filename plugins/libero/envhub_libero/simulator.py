"""LIBERO's own envs: imported late, without prompts or downloads, and reset to the bit."""

import ctypes
import gc
import importlib
import importlib.util
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from envhub.errors import ContractError
from envhub_libero.init_states import read_init_states

Array = np.ndarray[Any, Any]

SETTLING = np.array([0, 0, 0, 0, 0, 0, -1.0])
"""The action of published loops while objects come to rest: stand still, open the gripper."""
COMPARED = {"hf-libero": ("0.1.4",), "robosuite": ("1.4.0",), "mujoco": ("3.3.0", "3.3.7")}
"""The versions whose episodes were compared with and without the fast reset."""
_GROWING = ("object_property_initializers", "visualization_sites_list")
"""Lists that LIBERO extends at every reset and never empties. The first of them makes a reset draw
more random numbers than the one before, so that episodes would depend on their order."""


class Files(NamedTuple):
    """The files of a task."""

    bddl: Path
    states: Path


class Simulator:
    """One task in LIBERO's `OffScreenRenderEnv`."""

    def __init__(self, files: Files, assets: Path, cameras: Iterable[str], size: int) -> None:
        import_libero(assets)
        self._fast = not different_versions()
        self._states = read_init_states(files.states)
        self._env = _build(files.bddl, {
            "camera_names": list(cameras),
            "camera_heights": size,
            "camera_widths": size,
            "ignore_done": True,  # the host ends episodes
        }, fast=self._fast)  # fmt: skip
        self._size = size
        inner = self._env.env
        self._lengths = {name: len(getattr(inner, name)) for name in _GROWING}
        _report_failures(inner)

    def reset(
        self,
        seed: int | None,
        init_state: int,
        *,
        settling: int,
        absolute: bool,
        drawing: frozenset[str],
    ) -> Mapping[str, Any]:
        """Start an episode as LIBERO's own loop does, and return its first observation.

        Args:
            seed: Places the fixtures; None: they follow the random numbers of the last episode.
            init_state: The index of a stored state, which places the objects and the robot.
            settling: The number of steps until objects are at rest.
            absolute: Whether actions are poses instead of changes of the pose.
            drawing: The cameras that the first observation must show.
        """
        for name, length in self._lengths.items():
            del getattr(self._env.env, name)[length:]
        if seed is not None:
            self._env.seed(seed)
        self._draw(frozenset())
        self._env.reset()
        self._draw(frozenset() if settling else drawing)
        observation = self._env.set_init_state(self._states[init_state % len(self._states)])
        for left in range(settling - 1, -1, -1):
            self._draw(frozenset() if left else drawing)
            observation, *_ = self._env.step(SETTLING)
        for robot in self._env.robots:
            robot.controller.use_delta = not absolute
        return observation  # type: ignore[no-any-return]

    def step(self, action: Array, drawing: frozenset[str]) -> tuple[Mapping[str, Any], float, bool]:
        """Take a step; return the observation, the reward and whether the goal holds."""
        self._draw(drawing)
        observation, reward, success, _ = self._env.step(action)
        return observation, float(reward), bool(success)

    def mujoco(self) -> tuple[Any, Any]:
        """Return MuJoCo's model and data, which the next reset replaces."""
        sim = self._env.sim
        return sim.model._model, sim.data._data

    def look(self, drawing: frozenset[str]) -> Mapping[str, Any]:
        """Return an observation of the state as it is now; robosuite's own timers do not move.

        Args:
            drawing: The cameras that it must show.
        """
        self._draw(drawing)
        sensed: dict[str, Any] = {}
        for name, observable in self._env.env._observables.items():
            if observable.is_enabled():
                sensed[name] = np.array(observable._sensor(sensed))
        return sensed

    def orientation(self) -> Array:
        """Return the rotation matrix of the hand, as the controller last saw it."""
        return np.array(self._env.robots[0].controller.ee_ori_mat)

    def render(self, camera: str) -> Array:
        """Draw a camera's frame of the current state."""
        return np.asarray(
            self._env.sim.render(camera_name=camera, width=self._size, height=self._size)
        )

    def close(self) -> None:
        """Free the simulation and the GL context."""
        self._env.close()

    def _draw(self, cameras: frozenset[str]) -> None:
        if self._fast:
            self._env.env.kept.drawing = cameras


def return_memory() -> None:
    """Return the memory of a closed scene to the system before the next one is built.

    robosuite's objects refer to each other, so that only the garbage collector frees them. The C
    library then keeps their memory, some 300 MB a scene, unless it is told not to.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
    if trim is not None:
        trim(0)


def find_libero() -> Path:
    """Return the directory of LIBERO's data, without importing it.

    Raises:
        ContractError: LIBERO is not installed.
    """
    found = importlib.util.find_spec("libero")
    if found is None or importlib.util.find_spec("robosuite") is None:
        raise ContractError(
            "LIBERO is not installed in this interpreter. Run with --runtime isolated."
        )
    return Path(next(iter(found.submodule_search_locations or [""])), "libero")


def import_libero(assets: Path) -> None:
    """Import LIBERO without prompts, downloads or OpenGL.

    Args:
        assets: The directory of LIBERO's meshes and textures.

    Raises:
        ContractError: LIBERO is not installed, or was imported with other assets.
    """
    _write_config(find_libero())
    import libero.libero as package

    if package._assets_path_cache not in (None, str(assets)):
        raise ContractError(
            f"LIBERO already uses the assets in {package._assets_path_cache}; envs with those in "
            f"{assets} need a process of their own."
        )
    package._assets_path_cache = str(assets)
    if different_versions():
        from envhub.machine.gl import choose_backend

        choose_backend()  # robosuite loads GL when it is imported
    else:
        _import_robosuite()
    with _without_log_file():
        importlib.import_module("libero.libero.envs")


@contextmanager
def _without_log_file() -> Iterator[None]:
    """Let robosuite, while it is imported, open no log in /tmp, which another user may own."""
    opened = logging.FileHandler
    vars(logging)["FileHandler"] = lambda *_, **__: logging.NullHandler()
    try:
        yield
    finally:
        vars(logging)["FileHandler"] = opened


@cache
def different_versions() -> str:
    """Return the packages whose version was not compared; empty if there are none."""
    found = {name: _version(name) for name in COMPARED}
    other = (name for name, versions in COMPARED.items() if found[name] not in versions)
    return ", ".join(f"{name} {found[name]}" for name in other)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "without metadata"


def _build(bddl: Path, options: Mapping[str, Any], *, fast: bool) -> Any:
    from libero.libero.envs import TASK_MAPPING, OffScreenRenderEnv

    if not fast:
        print(  # noqa: T201
            f"envhub: {different_versions()} was not compared with the fast reset, so this env "
            "resets and draws as LIBERO does.",
            flush=True,
        )
        return OffScreenRenderEnv(bddl_file_name=str(bddl), **options)
    from envhub_libero.scene import fast_class

    own = dict(TASK_MAPPING)
    TASK_MAPPING.update({name: fast_class(base) for name, base in own.items()})
    try:
        return OffScreenRenderEnv(bddl_file_name=str(bddl), **options)
    finally:
        TASK_MAPPING.update(own)


def _report_failures(inner: Any) -> None:
    """Print why a reset fails. LIBERO tries again, for ever, and says nothing."""
    reset, reported = inner.reset, set[str]()

    def reset_and_report() -> Any:
        try:
            return reset()
        except Exception as exc:
            problem = f"{type(exc).__name__}: {exc}"
            if problem not in reported:
                reported.add(problem)
                print(f"envhub: LIBERO's reset failed and is tried again: {problem}", flush=True)  # noqa: T201
            raise

    inner.reset = reset_and_report


def _write_config(folder: Path) -> None:
    """Write the file without which LIBERO asks questions when it is imported."""
    if "libero.libero" in sys.modules:
        return
    place = Path(tempfile.mkdtemp(prefix="libero-"))
    names = {
        "bddl_files": "bddl_files",
        "init_states": "init_files",
        "datasets": "datasets",
        "assets": "assets",
    }
    config = {
        "benchmark_root": str(folder),
        **{key: str(folder / name) for key, name in names.items()},
    }
    (place / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    os.environ["LIBERO_CONFIG_PATH"] = str(place)
    # Otherwise numba would write next to robosuite's files, into a runtime that must not change.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(place))


def _import_robosuite() -> None:
    """Import robosuite without OpenGL, and without its log in /tmp, which another user may own.

    Its settings are in a module that its package imports, and there is no other way to set them
    before they are used: when it is imported, it chooses EGL and loads the library.
    """
    name = "robosuite.macros"
    if "robosuite" in sys.modules:
        return
    package = importlib.util.find_spec("robosuite")
    file = Path(next(iter((package and package.submodule_search_locations) or [""])), "macros.py")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ContractError(f"{file} cannot be imported.")
    macros: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.MUJOCO_GPU_RENDERING = False
    macros.FILE_LOGGING_LEVEL, macros.CONSOLE_LOGGING_LEVEL = None, "ERROR"
    backend = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    sys.modules[name] = macros
    try:
        import robosuite

        robosuite.macros = macros
    finally:
        del os.environ["MUJOCO_GL"]
        if backend is not None:
            os.environ["MUJOCO_GL"] = backend
