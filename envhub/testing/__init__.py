"""Test tools for authors of benchmarks and plugins. Importing this package is cheap."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envhub_localhub import LocalHub as LocalHub

    from envhub.check import check_benchmark as check_benchmark
    from envhub.testing.benchmark import BenchmarkConformance as BenchmarkConformance

_HOMES = {
    "BenchmarkConformance": "envhub.testing.benchmark",
    "LocalHub": "envhub.testing.hub",
    "check_benchmark": "envhub.check",
}

__all__ = ["BenchmarkConformance", "LocalHub", "check_benchmark"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'envhub.testing' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
