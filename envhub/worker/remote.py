"""An env in a worker process: what can be asked of it, in words of envs. Nothing here waits."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from envhub.errors import WorkerError
from envhub.plugins import chosen
from envhub.types import (
    HERE,
    Benchmark,
    Confinement,
    FileSource,
    Interpreter,
    Limits,
    PluginSource,
    PolicySource,
    Source,
    Value,
)
from envhub.worker.buffers import CHUNK
from envhub.worker.channel import BrokenChannel
from envhub.worker.host import Worker
from envhub.worker.inline import InlineWorker
from envhub.worker.protocol import (
    PLAY,
    Attach,
    Call,
    Close,
    Load,
    LoadPolicy,
    Open,
    Opened,
    Play,
    Render,
    Reset,
    SetAttr,
    Step,
    Stepped,
    Told,
    WasReset,
)
from envhub.worker.spaces import Spaces, SpaceSpec, decode_spaces, encode_space, leaves
from envhub.worker.values import portable

R = TypeVar("R")
Observe = tuple[str, ...] | None
"""The leaves of an observation that somebody reads; None = all."""


class RemoteEnv:
    """One env. Every method but `spaces` and `texts` asks; `worker.wait` gives the answer."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        *,
        log: Path | None = None,
        inline: bool = False,
        confinement: Confinement | None = None,
        interpreter: Interpreter = HERE,
    ) -> None:
        """Start the worker.

        Args:
            name: What errors call it.
            limits: For what is asked of it.
            log: A file for the beginning of its output.
            inline: Whether to run it in this process, without limits.
            confinement: What it is kept from.
            interpreter: What it runs on.
        """
        self.worker: Worker | InlineWorker = (
            InlineWorker(name)
            if inline
            else Worker(name, log=log, confinement=confinement, interpreter=interpreter)
        )
        self._limits = limits
        self._pulse: Any = None
        self._texts: frozenset[str] = frozenset()

    def load(
        self,
        source: Source,
        env_args: Mapping[str, Value],
        horizon: int | None = None,
        *,
        alone: bool = False,
        listing: bool = False,
    ) -> None:
        """Load a benchmark's code, and unless `alone` the plugins whose hooks apply."""
        code = source.name if isinstance(source, PluginSource) else source
        others = () if alone else chosen() or ()
        request = Load(self._next(), code, dict(env_args), others, horizon, listing)
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
        self.worker.ask(request, self._patience(count), "step")

    def step_again(self) -> None:
        """Take one more step as the last one was asked for, which was scored."""
        self.worker.tick(self._next(), self._limits.step, time.monotonic(), sent=False, scored=True)

    def load_policy(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        spaces: Spaces,
        source: FileSource | None = None,
    ) -> None:
        """Make a policy beside the env."""
        observation, action = (encode_space(space) for space in spaces)
        request = LoadPolicy(self._next(), policy, benchmark, observation, action, source)
        self.worker.ask(request, self._limits.start, "making the policy")

    def play(
        self, episode: Told, count: int, *, fresh: bool, until_success: bool, options: Any = None
    ) -> None:
        """Let the policy beside the env play, to the end in so many steps if possible."""
        final, count = count <= PLAY, min(count, PLAY)
        options = portable(options)
        request = Play(self._next(), episode, fresh, count, until_success, options, final)
        patience = self._patience(count)
        self.worker.ask(request, max(patience, self._limits.reset) if fresh else patience, "play")

    def watch(self, pulse: Any) -> None:
        """Tell long episodes from hanging steps by a pulse in shared memory."""
        self._pulse = pulse
        self.worker.pulse = lambda: int(pulse[0])

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

    def spaces(
        self, opened: Opened, decode: Callable[[SpaceSpec, SpaceSpec], Spaces] = decode_spaces
    ) -> Spaces:
        """The observation and action space of an opened env.

        Args:
            opened: What it told.
            decode: How to take it.

        Raises:
            WorkerDied: They make no sense, so the worker was ended.
        """
        try:
            spaces = decode(opened.observation_space, opened.action_space)
        except ValueError as exc:
            raise self.worker.broken(exc) from exc
        self._texts = frozenset(leaf.path for leaf in leaves(spaces[0]) if leaf.dtype is None)
        return spaces

    def texts(self, reply: "WasReset | Stepped", observe: Observe = None) -> dict[str, str]:
        """The texts of an observation.

        Raises:
            WorkerDied: They are not those of the space, so the worker was ended.
        """
        if not reply.texts and not self._texts:
            return reply.texts
        due = self._texts if observe is None else self._texts & frozenset(observe)
        if reply.texts.keys() != due:
            reason = BrokenChannel(
                f"it sent the texts {sorted(reply.texts)}, due were {sorted(due)}"
            )
            raise self.worker.broken(reason)
        return reply.texts

    def _patience(self, count: int) -> float:
        """The limit for so many steps: that of one, where the pulse tells of each."""
        if self._pulse is None:
            return self._limits.step * count
        self._pulse[0] = 0
        return self._limits.step

    def _next(self) -> int:
        return self.worker.next_id()


def _name(source: Source) -> str:
    match source:
        case PluginSource(name=name):
            return f"plugin {name!r}"
        case FileSource(file=file, directory=directory):
            return f"{directory}/{file}"
