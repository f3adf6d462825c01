"""Test tools for authors of benchmarks and plugins. Importing this package is cheap."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envhub.testing.hub import LocalHub as LocalHub

_HOMES = {"LocalHub": "envhub.testing.hub"}

__all__ = ["LocalHub"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'envhub.testing' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
