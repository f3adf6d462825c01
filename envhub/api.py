"""What `import envhub` offers to programs."""

from collections.abc import Iterable, Mapping

from gymnasium.vector import AutoresetMode

from envhub.envs.crew import Opening
from envhub.envs.vector import LazyVectorEnv
from envhub.errors import UsageError
from envhub.references import find_source
from envhub.selection import select
from envhub.types import Limits, Value
from envhub.worker.describe import describe

_UNUSED_HORIZON = 1_000_000
"""For published envs without a horizon: a vector environment leaves truncating to its envs."""


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
) -> dict[str, dict[str, LazyVectorEnv]]:
    """Make the environments of a benchmark, each in processes of its own.

    Nothing runs before an environment is used, apart from one process that says what the benchmark
    holds and ends.

    Args:
        ref: An installed benchmark's name, or a local `./directory` or `./file.py`.
        n_envs: Envs in each vector environment.
        suites: Names; none means the benchmark's default, `all` means every suite.
        tasks: Names; none means all of the suites.
        env_args: For the benchmark's env maker.
        limits: After how many seconds a process that does not answer is ended.
        autoreset_mode: As in Gymnasium.
        copy: Whether observations are copied out of the shared memory. If not, they change with
            the next step.
        use_async_envs: Accepted for callers of other libraries; envs always run in parallel.

    Returns:
        `{suite: {task: VectorEnv}}`.

    Raises:
        UsageError: There is no such benchmark, suite or task.
        ContractError: The benchmark's code is at fault.
    """
    if not isinstance(n_envs, int) or n_envs < 1:
        raise UsageError(f"n_envs must be a whole number of at least 1, found {n_envs!r}.")
    bounds = limits or Limits()
    arguments = dict(env_args or {})
    source = find_source(ref)
    benchmark, _ = describe(source, arguments, bounds, horizon=_UNUSED_HORIZON)
    return {
        suite: {
            task.name: LazyVectorEnv(
                Opening(source, suite, task.name, arguments, bounds, _UNUSED_HORIZON),
                n_envs,
                autoreset_mode=autoreset_mode,
                copy=copy,
            )
            for task in chosen
        }
        for suite, chosen in select(benchmark, suites, tasks).items()
    }
