"""Asking a worker what a source declares."""

from collections.abc import Mapping

from envhub.types import Benchmark, Limits, Source, Value
from envhub.worker.host import Switchboard, exchange_one
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
) -> tuple[Benchmark, tuple[AnySpace, AnySpace] | None]:
    """Load a source in a process of its own, and end it.

    Args:
        source: What to load.
        env_args: For the benchmark's env maker.
        limits: Of these, `start` bounds each answer.
        horizon: For envs of the published contract that have none.
        with_spaces: Whether to make the first task's env, for its observation and action space.

    Raises:
        WorkerError: The code raised, ended its process or did not answer; or is no benchmark.
    """
    board = Switchboard()
    remote = RemoteEnv("", limits)
    board.add(remote.worker)
    try:
        remote.load(source, env_args, horizon)
        benchmark = exchange_one(board, remote.worker, Loaded).benchmark
        return benchmark, _spaces(board, remote, benchmark) if with_spaces else None
    finally:
        board.close([remote.worker], limit=limits.close)
        board.dispose()


def _spaces(
    board: Switchboard, remote: RemoteEnv, benchmark: Benchmark
) -> tuple[AnySpace, AnySpace]:
    suite = benchmark.default[0] if benchmark.default else next(iter(benchmark.suites))
    remote.open(suite, benchmark.suites[suite][0].name)
    return remote.spaces(exchange_one(board, remote.worker, Opened))
