"""Asking a worker what a source declares."""

from collections.abc import Mapping

from envhub.plugins import chosen
from envhub.types import Benchmark, FileSource, Limits, PluginSource, Source, Value
from envhub.worker.host import Switchboard, Worker, exchange
from envhub.worker.protocol import Load, Loaded, Open, Opened
from envhub.worker.spaces import AnySpace, decode_space


def load_request(
    request_id: int, source: Source, env_args: Mapping[str, Value], horizon: int | None = None
) -> Load:
    """The request that loads a source, with the plugins whose hooks apply."""
    loaded = source.name if isinstance(source, PluginSource) else source
    return Load(request_id, loaded, dict(env_args), chosen() or (), horizon)


def describe(
    source: Source,
    env_args: Mapping[str, Value],
    limits: Limits,
    *,
    horizon: int | None = None,
    with_spaces: bool = False,
) -> tuple[Benchmark, tuple[AnySpace, AnySpace] | None]:
    """Load a source in a process of its own.

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
    worker = Worker("")
    board.add(worker)
    try:
        request = load_request(worker.next_id(), source, env_args, horizon)
        worker.ask(request, limit=limits.start, doing=f"Loading {source_name(source)}")
        exchange_one(board, worker)
        loaded = worker.take()
        assert isinstance(loaded, Loaded)
        benchmark = loaded.benchmark
        return benchmark, _spaces(board, worker, benchmark, limits) if with_spaces else None
    finally:
        board.close([worker], limit=limits.close)


def source_name(source: Source) -> str:
    """What errors call a source."""
    match source:
        case PluginSource(name=name):
            return f"plugin {name!r}"
        case FileSource(file=file, directory=directory):
            return f"{directory}/{file}"


def _spaces(
    board: Switchboard, worker: Worker, benchmark: Benchmark, limits: Limits
) -> tuple[AnySpace, AnySpace]:
    suite = benchmark.default[0] if benchmark.default else next(iter(benchmark.suites))
    task = benchmark.suites[suite][0].name
    request = Open(worker.next_id(), suite, task)
    worker.ask(request, limit=limits.start, doing=f"Making the env of task {task!r}")
    exchange_one(board, worker)
    opened = worker.take()
    assert isinstance(opened, Opened)
    return decode_space(opened.observation_space), decode_space(opened.action_space)


def exchange_one(board: Switchboard, worker: Worker) -> None:
    """Wait until a worker has an outcome, and leave it there."""
    [worker.outcome] = exchange(board, [worker])
