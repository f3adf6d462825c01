"""Meta-World as an EnvHub benchmark. Importing this package does not import the simulator."""

from collections.abc import Iterable

import envhub
from envhub import Benchmark
from envhub_metaworld.tasks import suites


@envhub.hookimpl
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare the benchmark `metaworld`."""
    yield Benchmark(
        name="metaworld",
        make="envhub_metaworld.env:make",
        suites=suites(),
        default=("mt50",),
        episodes=10,
        control_hz=80.0,
        hold=(0.0, 0.0, 0.0, -1.0),  # the gripper is open after a reset
        spaces="envhub_metaworld.env:spaces_of",
        policies={"expert": "envhub_metaworld.expert:make_policy"},
        runtime="envhub_metaworld:runtime.txt",
        memory_mb=512,
        conventions="envhub_metaworld.conventions:conventions_of",
    )
