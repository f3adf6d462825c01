"""The functions that `import envhub` offers to programs."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from gymnasium.vector import AutoresetMode

from envhub.errors import PluginError, UsageError
from envhub.evaluation.engine import Engine
from envhub.evaluation.plan import Plan, select
from envhub.evaluation.request import EvalRequest
from envhub.evaluation.run import start_run
from envhub.host.loading import LazySpec, describe
from envhub.records import EpisodeRecord
from envhub.results.run import Run
from envhub.sources.find import find_source
from envhub.types import Limits, SourceKeywords, SourceOptions, Value, WorkerSpec
from envhub.vector.env import LazyVectorEnv

_UNUSED_HORIZON = 1_000_000
"""For envs of the published contract without a horizon; vector environments do not truncate."""


def make_env(
    ref: str,
    n_envs: int = 1,
    *,
    suites: Iterable[str] = (),
    tasks: Iterable[str] = (),
    env_args: Mapping[str, Value] | None = None,
    limits: Limits | None = None,
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    copy: bool = True,
    use_async_envs: bool | None = None,
    **source: Unpack[SourceKeywords],
) -> dict[str, dict[str, LazyVectorEnv]]:
    """Make the environments of a benchmark, whose envs run in processes of their own.

    One process reads what the benchmark declares, and ends. The processes of an environment start
    when it is first used.

    Args:
        ref: An installed benchmark's name, a local `./directory` or `./file.py`, or
            `owner/repo@<commit>:env.py` on the Hub.
        n_envs: The number of envs in each vector environment.
        suites: Names of suites; none: the benchmark's default; `all`: every suite.
        tasks: Names of tasks; none: all tasks of the suites.
        env_args: Arguments of the benchmark's function that makes envs.
        limits: Seconds after which a process that does not answer is ended.
        autoreset_mode: As in Gymnasium.
        copy: Whether to copy observations out of the shared memory. If not, they change with the
            next step.
        use_async_envs: Ignored; accepted for code that calls other libraries' `make_env`. Envs
            always run in parallel.
        **source: How to get the benchmark, and where to run it: `trust_remote_code`, `sandbox`,
            `runtime` and the others of `envhub.types.SourceKeywords`.

    Returns:
        `{suite: {task: VectorEnv}}`.

    Raises:
        UsageError: The benchmark, suite or task does not exist.
        RuntimeUnavailable: The benchmark's requirements are not available.
        ContractError: The benchmark breaks its contract.
    """
    if not isinstance(n_envs, int) or n_envs < 1:
        raise UsageError(f"n_envs must be a whole number of at least 1, found {n_envs!r}.")
    options = SourceOptions.of("make_env", source)
    spec = WorkerSpec(
        find_source(ref, options), dict(env_args or {}), limits or Limits(), _UNUSED_HORIZON
    )
    description = describe(spec, options.runtime, locked=options.locked)
    lazy = LazySpec(description, options.runtime)
    return {
        suite: {
            task.name: LazyVectorEnv(
                lazy,
                suite,
                task.name,
                n_envs,
                spaces=description.spaces.get(task.name),
                autoreset_mode=autoreset_mode,
                copy=copy,
            )
            for task in chosen
        }
        for suite, chosen in select(description.benchmark, suites, tasks).items()
    }


def evaluate(
    ref: str,
    policy: Any = "random",
    *,
    suites: Iterable[str] = (),
    tasks: Iterable[str] = (),
    episodes: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    max_steps: int | None = None,
    env_args: Mapping[str, Value] | None = None,
    policy_args: Mapping[str, Value] | None = None,
    limits: Limits | None = None,
    retries: int = 1,
    out: str | Path | None = None,
    **source: Unpack[SourceKeywords],
) -> Run:
    """Evaluate a policy on a benchmark, as `envhub eval` does.

    Args:
        ref: An installed benchmark's name, a local `./directory` or `./file.py`, or
            `owner/repo@<commit>:env.py` on the Hub.
        policy: A policy object, which runs in this process, or text as for `--policy`.
        suites: Names of suites; none: the benchmark's default; `all`: every suite.
        tasks: Names of tasks; none: all tasks of the suites.
        episodes: Episodes per task; None: the benchmark's own number.
        seed: The seed of each task's first episode; the others count up from it.
        workers: Worker processes; None: as many as cores and free memory allow; 0: everything in
            this process.
        max_steps: A horizon that replaces the tasks' own.
        env_args: Arguments of the benchmark's function that makes envs.
        policy_args: Arguments of the policy's factory.
        limits: Seconds after which a process that does not answer is ended.
        retries: How often an episode that failed is run again before its failure is recorded.
        out: A new directory for the run; None: one under `runs/`.
        **source: How to get the benchmark, and where to run it: `trust_remote_code`, `sandbox`,
            `runtime` and the others of `envhub.types.SourceKeywords`.

    Returns:
        The run: its directory, `records()` and `summary()`.
    """
    options = SourceOptions.of("evaluate", source)
    request = EvalRequest(
        ref=ref,
        policy=policy,
        suites=(suites,) if isinstance(suites, str) else tuple(suites),
        tasks=(tasks,) if isinstance(tasks, str) else tuple(tasks),
        episodes=episodes,
        seed=seed,
        workers=workers,
        max_steps=max_steps,
        env_args=dict(env_args or {}),
        policy_args=dict(policy_args or {}),
        limits=limits or Limits(),
        retries=retries,
        out=Path(out) if out is not None else None,
        options=options,
    )
    return start_run(request, _Silent())


class _Silent:
    """Ignores progress; warns where an observer fails."""

    def started(self, run: Run, plan: Plan, engine: Engine, done: int) -> None:
        return

    def recorded(self, record: EpisodeRecord) -> None:
        return

    def refresh(self) -> None:
        return

    def message(self, text: str) -> None:
        return

    def progress(self, text: str) -> None:
        return

    def warning(self, problem: PluginError) -> None:
        warnings.warn(str(problem), stacklevel=2)
