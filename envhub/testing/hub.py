"""The former name of `envhub_localhub`, which is a distribution of its own, for those who use it.

`python -m envhub.testing.hub DIR` is `python -m envhub_localhub DIR`.
"""

import runpy
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from envhub.errors import UsageError


def _import_localhub() -> ModuleType:
    try:
        return import_module("envhub_localhub")
    except ModuleNotFoundError as exc:
        if exc.name != "envhub_localhub":
            raise
        raise UsageError(
            "LocalHub is in the distribution envhub-localhub, which is not installed. "
            "In a clone of EnvHub: pip install ./plugins/localhub"
        ) from exc


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # Python asks for some that modules need not have
        raise AttributeError(f"module 'envhub.testing.hub' has no attribute {name!r}")
    return getattr(_import_localhub(), name)


if __name__ == "__main__":
    try:
        _import_localhub()
    except UsageError as missing:
        sys.stderr.write(f"error: {missing}\n")
        sys.exit(missing.exit_code)
    runpy.run_module("envhub_localhub", run_name="__main__", alter_sys=True)
