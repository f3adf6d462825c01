"""Asking a worker what a source declares."""

from collections.abc import Callable
from dataclasses import dataclass

from envhub.types import Benchmark, Interpreter
from envhub.worker.board import close_workers
from envhub.worker.first import Wanted, start_first
from envhub.worker.missing import explaining
from envhub.worker.protocol import Opened
from envhub.worker.remote import RemoteEnv
from envhub.worker.spaces import Spaces


@dataclass(frozen=True, slots=True)
class Described:
    """What a source declares."""

    benchmark: Benchmark
    interpreter: Interpreter
    """What it ran on, and others are to run on."""
    spaces: Spaces | None = None
    """The observation and the action space of the first task's env."""


def describe(
    wanted: Wanted,
    *,
    with_spaces: bool = False,
    say: Callable[[str], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> Described:
    """Load a source in a process of its own, and end it.

    Args:
        wanted: What to load; of its limits, `start` bounds each answer.
        with_spaces: Whether to make the first task's env, for its spaces.
        say: Told what the user should know.
        note: Told what takes its time.

    Raises:
        RuntimeUnavailable: What it requires cannot be had.
        WorkerError: The code raised, ended its process or did not answer; or is no benchmark.
    """
    remote, loaded, interpreter = start_first(wanted, say=say, note=note)
    try:
        with explaining(wanted.source, interpreter):
            spaces = _spaces(remote, loaded.benchmark) if with_spaces else None
    finally:
        close_workers([remote.worker], limit=wanted.limits.close)
    return Described(loaded.benchmark, interpreter, spaces)


def _spaces(remote: RemoteEnv, benchmark: Benchmark) -> Spaces:
    suite = benchmark.default[0] if benchmark.default else next(iter(benchmark.suites))
    remote.open(suite, benchmark.suites[suite][0].name)
    return remote.spaces(remote.answer(Opened))
