"""The hooks that a plugin package or an `env.py` may implement, marked with `envhub.hookimpl`.

An implementation may leave parameters out, but must not give them defaults: pluggy never passes a
value to a parameter that has one.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pluggy

from envhub.declarations import Benchmark, Perturbation, Task

if TYPE_CHECKING:
    from envhub.records import EpisodeRecord
    from envhub.results.run import Run
    from envhub.results.summary import Summary

PROJECT = "envhub"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

EnvWrapper = Callable[[Any], Any]
"""Takes a `gym.Env`, returns one."""


@hookspec
def envhub_benchmarks() -> Iterable[Benchmark]:
    """Declare benchmarks. Must be light: it is called before any simulator is needed."""
    raise NotImplementedError


@hookspec
def envhub_wrap_env(task: Task) -> EnvWrapper | None:
    """Return a wrapper for the env of this task, or None to leave the env alone.

    Called in the worker, once per env. Wrappers of several plugins are applied in the order of the
    plugins' names.
    """
    raise NotImplementedError


@hookspec
def envhub_perturbations() -> Iterable[Perturbation]:
    """Declare perturbations. Must be light.

    Called in workers, of the modules in the entry-point group `envhub.perturbations`.
    """
    raise NotImplementedError


@hookspec
def envhub_run_started(run: "Run") -> None:
    """A run starts or is resumed. Called in the process of `envhub eval`, as are the next two."""


@hookspec
def envhub_episode_finished(run: "Run", record: "EpisodeRecord") -> None:
    """An episode has been recorded."""


@hookspec
def envhub_run_finished(run: "Run", summary: "Summary") -> None:
    """All episodes have been recorded, or the run was interrupted.

    With `--video`, it is called after the videos were drawn.
    """
