"""An env in a worker process: what can be asked of it, in words of envs. Nothing here waits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from envhub.errors import WorkerError
from envhub.plugins import chosen
from envhub.types import FileSource, Limits, PluginSource, Source, Value
from envhub.worker.buffers import CHUNK
from envhub.worker.channel import BrokenChannel
from envhub.worker.host import Worker
from envhub.worker.protocol import (
    Attach,
    Call,
    Close,
    Load,
    Open,
    Opened,
    Render,
    Reset,
    SetAttr,
    Step,
    Stepped,
    WasReset,
)
from envhub.worker.spaces import AnySpace, decode_space, leaves
from envhub.worker.values import portable

R = TypeVar("R")
Observe = tuple[str, ...] | None
"""The leaves of an observation that somebody reads; None = all."""


class RemoteEnv:
    """One env. Every method but `spaces` and `texts` asks; `worker.wait` gives the answer."""

    def __init__(self, name: str, limits: Limits, *, log: Path | None = None) -> None:
        self.worker = Worker(name, log=log)
        self._limits = limits
        self._texts: frozenset[str] = frozenset()

    def load(
        self, source: Source, env_args: Mapping[str, Value], horizon: int | None = None
    ) -> None:
        """Load a benchmark's code, and the plugins whose hooks apply."""
        code = source.name if isinstance(source, PluginSource) else source
        request = Load(self._next(), code, dict(env_args), chosen() or (), horizon)
        self.worker.subject = _name(source)
        self.worker.ask(request, self._limits.start, "loading")

    def open(self, suite: str, task: str) -> None:
        """Make the env of a task, ending the one before."""
        self.worker.subject = f"task {task!r}"
        self.worker.ask(Open(self._next(), suite, task), self._limits.start, "making the env")

    def attach(self, memory: int, rows: int, row: int) -> None:
        """Share memory, in which this env has a row."""
        request = Attach(self._next(), rows, row)
        self.worker.ask(request, self._limits.start, "sharing memory", (memory,))

    def reset(self, seed: int | None, options: Any = None, observe: Observe = None) -> None:
        """Reset the env."""
        request = Reset(self._next(), seed, portable(options), observe)
        self.worker.ask(request, self._limits.reset, "reset")

    def step(
        self,
        count: int = 1,
        *,
        observe: Observe = None,
        scored: bool = False,
        until_success: bool = False,
    ) -> None:
        """Take the steps whose actions are in shared memory, at most `CHUNK`."""
        assert 1 <= count <= CHUNK
        request = Step(self._next(), count, observe, scored, until_success)
        self.worker.ask(request, self._limits.step * count, "step")

    def step_with(self, action: Any, *, observe: Observe = None) -> None:
        """Take one step with an action that has no place in shared memory."""
        request = Step(self._next(), 1, observe, inline=True, action=portable(action))
        self.worker.ask(request, self._limits.step, "step")

    def render(self) -> None:
        """Render a frame."""
        self.worker.ask(Render(self._next()), self._limits.reset, "render")

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Call a method of the env, or read an attribute."""
        request = Call(self._next(), name, portable(list(args)), portable(dict(kwargs)))
        self.worker.ask(request, self._limits.reset, f"call of {name!r}")

    def set_attr(self, name: str, value: Any) -> None:
        """Set an attribute of the env."""
        request = SetAttr(self._next(), name, portable(value))
        self.worker.ask(request, self._limits.reset, f"setting {name!r}")

    def close(self) -> None:
        """Close the env; the worker lives on."""
        self.worker.ask(Close(self._next()), self._limits.close, "close")

    def answer(self, kind: type[R]) -> R:
        """Wait for the answer; what went wrong is raised."""
        outcome = self.worker.wait()
        if isinstance(outcome, WorkerError):
            raise outcome
        assert isinstance(outcome, kind)  # `protocol.check` saw to it
        return outcome

    def spaces(self, opened: Opened) -> tuple[AnySpace, AnySpace]:
        """The observation and action space of an opened env.

        Raises:
            WorkerDied: They make no sense, so the worker was ended.
        """
        try:
            spaces = decode_space(opened.observation_space), decode_space(opened.action_space)
        except ValueError as exc:
            raise self.worker.broken(exc) from exc
        self._texts = frozenset(leaf.path for leaf in leaves(spaces[0]) if leaf.dtype is None)
        return spaces

    def texts(self, reply: "WasReset | Stepped", observe: Observe = None) -> dict[str, str]:
        """The texts of an observation.

        Raises:
            WorkerDied: They are not those of the space, so the worker was ended.
        """
        due = self._texts if observe is None else self._texts & frozenset(observe)
        if reply.texts.keys() != due:
            reason = BrokenChannel(
                f"it sent the texts {sorted(reply.texts)}, due were {sorted(due)}"
            )
            raise self.worker.broken(reason)
        return reply.texts

    def _next(self) -> int:
        return self.worker.next_id()


def _name(source: Source) -> str:
    match source:
        case PluginSource(name=name):
            return f"plugin {name!r}"
        case FileSource(file=file, directory=directory):
            return f"{directory}/{file}"
