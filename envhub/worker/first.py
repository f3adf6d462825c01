"""The first worker of a benchmark: it says what the benchmark holds, on the right interpreter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envhub.runtime.provision import provision
from envhub.types import (
    FileSource,
    Interpreter,
    Limits,
    PluginSource,
    RuntimeChoice,
    Source,
    Value,
)
from envhub.worker.board import close_workers
from envhub.worker.missing import explaining
from envhub.worker.protocol import Loaded
from envhub.worker.remote import RemoteEnv


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the first worker is to load, and how."""

    source: Source
    env_args: Mapping[str, Value]
    limits: Limits
    runtime: RuntimeChoice = "auto"
    locked: bool = False
    """Whether to take the pins of `envhub.lock`."""
    horizon: int | None = None
    """For envs of the published contract that have none."""
    alone: bool = False
    """Whether to leave out the other plugins that `ENVHUB_PLUGINS` names."""


def start_first(
    wanted: Wanted,
    name: str = "",
    *,
    log: Path | None = None,
    inline: bool = False,
    say: Callable[[str], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[RemoteEnv, Loaded, Interpreter]:
    """Start a worker that has loaded the benchmark.

    An env file says before it is run what it requires. A plugin is asked, on this interpreter; if
    it requires what is not here, another worker takes over in a runtime of its own.

    Args:
        wanted: What to load.
        name: What errors call the worker.
        log: A file for the beginning of its output.
        inline: Whether to run it in this process.
        say: Told what the user should know.
        note: Told what takes its time.

    Raises:
        RuntimeUnavailable: What it requires cannot be had.
        WorkerError: The code raised, ended its process or did not answer; or is no benchmark.
    """
    source, choice = wanted.source, wanted.runtime
    interpreter = provision(source, choice, locked=wanted.locked, inline=inline, say=say, note=note)
    remote = _start(wanted, name, log, interpreter, inline=inline)
    loaded = _load(remote, wanted, interpreter)
    if not isinstance(source, PluginSource):
        return remote, loaded, interpreter
    try:
        interpreter = provision(source, choice, loaded.benchmark, inline=inline, say=say, note=note)
    except BaseException:
        close_workers([remote.worker], limit=wanted.limits.close)
        raise
    if interpreter.kind == "isolated":
        close_workers([remote.worker], limit=wanted.limits.close)
        remote = _start(wanted, name, log, interpreter, inline=inline)
        loaded = _load(remote, wanted, interpreter)
    return remote, loaded, interpreter


def _start(
    wanted: Wanted, name: str, log: Path | None, interpreter: Interpreter, *, inline: bool
) -> RemoteEnv:
    source = wanted.source
    confinement = source.confinement if isinstance(source, FileSource) else None
    return RemoteEnv(
        name,
        wanted.limits,
        log=log,
        inline=inline,
        confinement=confinement,
        interpreter=interpreter,
    )


def _load(remote: RemoteEnv, wanted: Wanted, interpreter: Interpreter) -> Loaded:
    try:
        with explaining(wanted.source, interpreter):
            remote.load(
                wanted.source, wanted.env_args, wanted.horizon, alone=wanted.alone, listing=True
            )
            return remote.answer(Loaded)
    except BaseException:
        close_workers([remote.worker], limit=wanted.limits.close)
        raise
