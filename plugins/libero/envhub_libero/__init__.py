"""LIBERO and LIBERO-PRO as EnvHub benchmarks. Importing the package imports no simulator."""

from collections.abc import Iterable
from typing import Any

import envhub
from envhub import Asset, Benchmark
from envhub_libero import pro_tasks
from envhub_libero.tasks import suites

_DARK = (
    "draws the floor of libero_object 37 of 255 levels darker than the versions that published "
    "policies were evaluated with"
)
"""Measured against MuJoCo 3.2.3; `docs/libero.md` has the figures."""


_SHARED: dict[str, Any] = {
    "episodes": 50,
    "control_hz": 20.0,
    "hold": "envhub_libero.conventions:hold_of",
    "lerobot": "envhub_libero.conversion:convert",
    "version_notes": {
        "mujoco>=3.3.3,<3.4": _DARK,
        "mujoco>=3.4": f"{_DARK}, and computes contacts in another way",
    },
    "assets": (Asset("assets", "lerobot/libero-assets", "ENVHUB_LIBERO_ASSETS"),),
    "memory_mb": 2048,
    "conventions": "envhub_libero.conventions:conventions_of",
    "lerobot_conventions": {"images": "upright", "state": "ee_axis_angle_gripper"},
}
"""What both benchmarks have: the robot, its cameras and the simulator."""


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare the benchmarks `libero` and `libero_pro`."""
    yield Benchmark(
        name="libero",
        make="envhub_libero.env:make",
        suites=suites(),
        default=("libero_spatial", "libero_object", "libero_goal", "libero_10"),
        spaces="envhub_libero.env:spaces_of",
        runtime="envhub_libero:runtime.txt",
        **_SHARED,
    )
    yield Benchmark(
        name="libero_pro",
        make="envhub_libero.pro_env:make",
        suites=pro_tasks.suites(),
        default=pro_tasks.DEFAULT,
        dimensions=pro_tasks.dimensions(),
        spaces="envhub_libero.pro_env:spaces_of",
        runtime="envhub_libero:libero_pro.txt",
        **_SHARED,
    )
