"""LIBERO as an EnvHub benchmark. Importing this package does not import the simulator."""

from collections.abc import Iterable

import envhub
from envhub import Asset, Benchmark
from envhub_libero.tasks import suites


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare the benchmark `libero`."""
    yield Benchmark(
        name="libero",
        make="envhub_libero.env:make",
        suites=suites(),
        default=("libero_spatial", "libero_object", "libero_goal", "libero_10"),
        episodes=50,
        control_hz=20.0,
        spaces="envhub_libero.env:spaces_of",
        lerobot="envhub_libero.conversion:convert",
        runtime="envhub_libero:runtime.txt",
        assets=(Asset("assets", "lerobot/libero-assets", "ENVHUB_LIBERO_ASSETS"),),
        memory_mb=2048,
        conventions="envhub_libero.conventions:conventions_of",
        lerobot_conventions={"images": "upright", "state": "ee_axis_angle_gripper"},
    )
