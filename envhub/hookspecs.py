"""The hooks that a plugin package or an `env.py` may implement.

Mark an implementation with `envhub.hookimpl`. Its parameters may be left out, but must not have
defaults: pluggy never passes a value to a parameter that has one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pluggy

from envhub.types import Benchmark, Task

PROJECT = "envhub"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

EnvWrapper = Callable[[Any], Any]
"""Takes a `gym.Env`, returns one."""


@hookspec
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare benchmarks. Must be light: it is called before any simulator is wanted."""
    raise NotImplementedError


@hookspec
def envhub_wrap_env(task: Task) -> EnvWrapper | None:
    """Return a wrapper for the env of this task, or None to leave it alone.

    Called in the worker, once for every env that is made. Wrappers of several plugins are applied
    in the order of the plugins' names.
    """
    raise NotImplementedError
