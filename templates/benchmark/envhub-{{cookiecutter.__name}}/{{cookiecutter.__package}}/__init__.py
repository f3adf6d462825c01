"""A benchmark for EnvHub. Importing this package does not import the simulator."""

from collections.abc import Iterable

import envhub
from envhub import Benchmark

from {{cookiecutter.__package}}.suites import suites


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare the benchmark."""
    yield Benchmark(
        name="{{cookiecutter.__name}}",
        make="{{cookiecutter.__package}}.env:make",
        suites=suites(),
        episodes=20,
        control_hz=10.0,
        spaces="{{cookiecutter.__package}}.env:spaces_of",
        policies={"expert": "{{cookiecutter.__package}}.expert:make_policy"},
        memory_mb=384,
        conventions={
            "control": "ee_velocity",
            "rotation": "none",
            "gripper": "none",
            "frame": "world",
            "images": "upright",
            "state": "planar_position",
        },
    )
