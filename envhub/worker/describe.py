"""Asking a worker what a source declares."""

from collections.abc import Mapping

from envhub.types import Benchmark, FileSource, Limits, Source, Value
from envhub.worker.board import close_workers
from envhub.worker.protocol import Loaded, Opened
from envhub.worker.remote import RemoteEnv
from envhub.worker.spaces import AnySpace


def describe(
    source: Source,
    env_args: Mapping[str, Value],
    limits: Limits,
    *,
    horizon: int | None = None,
    with_spaces: bool = False,
    alone: bool = False,
) -> tuple[Benchmark, tuple[AnySpace, AnySpace] | None]:
    """Load a source in a process of its own, and end it.

    Args:
        source: What to load.
        env_args: For the benchmark's env maker.
        limits: Of these, `start` bounds each answer.
        horizon: For envs of the published contract that have none.
        alone: Whether to leave out the other plugins that `ENVHUB_PLUGINS` names.
        with_spaces: Whether to make the first task's env, for its observation and action space.

    Raises:
        WorkerError: The code raised, ended its process or did not answer; or is no benchmark.
    """
    confinement = source.confinement if isinstance(source, FileSource) else None
    remote = RemoteEnv("", limits, confinement=confinement)
    try:
        remote.load(source, env_args, horizon, alone=alone)
        benchmark = remote.answer(Loaded).benchmark
        return benchmark, _spaces(remote, benchmark) if with_spaces else None
    finally:
        close_workers([remote.worker], limit=limits.close)


def _spaces(remote: RemoteEnv, benchmark: Benchmark) -> tuple[AnySpace, AnySpace]:
    suite = benchmark.default[0] if benchmark.default else next(iter(benchmark.suites))
    remote.open(suite, benchmark.suites[suite][0].name)
    return remote.spaces(remote.answer(Opened))
