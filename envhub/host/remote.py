"""Envs and policies in worker processes: one method per request. Only `answer` waits."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from envhub.declarations import Benchmark
from envhub.discovery import chosen
from envhub.errors import WorkerError
from envhub.host.inline import InlineWorker
from envhub.host.worker import Worker
from envhub.options import Delays
from envhub.types import (
    Batch,
    FileSource,
    PluginSource,
    PolicySource,
    PolicySpec,
    Source,
    WorkerSpec,
)
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import CHUNK
from envhub.wire.messages import (
    PLAY,
    Act,
    Attach,
    BatchRow,
    Call,
    Close,
    Convert,
    Converted,
    EpisodeInfo,
    Load,
    LoadPerturbations,
    LoadPolicy,
    MapSlot,
    Open,
    Opened,
    Play,
    Probe,
    Render,
    Reset,
    SetAttr,
    Step,
    Stepped,
    WasReset,
)
from envhub.wire.spaces import (
    AnySpace,
    Spaces,
    SpaceSpec,
    decode_space,
    decode_spaces,
    encode_space,
    leaves,
)
from envhub.wire.values import portable

R = TypeVar("R")

Observe = tuple[str, ...] | None
"""The paths of an observation's leaves that the env must fill; None = all."""


class RemoteEnv:
    """An env in a worker.

    The methods up to `close` send a request and return at once; `answer` or `worker.wait` waits for
    the reply.
    """

    def __init__(
        self, name: str, spec: WorkerSpec, *, log: Path | None = None, inline: bool = False
    ) -> None:
        """Start the worker.

        Args:
            name: The worker's name in errors.
            spec: What to run, on which interpreter, and in which sandbox.
            log: A file for the beginning of the worker's output.
            inline: Whether to run the worker in this process, without time limits.
        """
        self.worker: Worker | InlineWorker = (
            InlineWorker(name, spec, log) if inline else Worker(name, spec, log=log)
        )
        self.spec = spec
        self._limits = spec.limits
        self._pulse: Any = None
        self._texts: frozenset[str] = frozenset()

    def load(
        self, *, packages: bool = False, spaces: bool = False, fatal: tuple[str, ...] = ()
    ) -> None:
        """Load the benchmark's code, and the plugins whose hooks apply.

        Args:
            packages: Whether to ask which packages are installed.
            spaces: Whether to ask which spaces the tasks declare.
            fatal: Tasks whose envs ended the processes of other workers; they are not made.
        """
        spec = self.spec
        code = spec.source.name if isinstance(spec.source, PluginSource) else spec.source
        others = () if spec.alone else chosen() or ()
        request = Load(
            self._next(),
            code,
            spec.arguments,
            others,
            spec.horizon,
            packages,
            spaces,
            spec.declared,
            fatal,
            dict(spec.perturb),
        )
        self.worker.subject = _name(spec.source)
        self.worker.ask(request, self._limits.start, "loading")

    def load_perturbations(self, names: tuple[str, ...]) -> None:
        """Ask what perturbations declare."""
        self.worker.subject = "the perturbations"
        request = LoadPerturbations(self._next(), names)
        self.worker.ask(request, self._limits.start, "loading")

    def open(self, suite: str, task: str, needs: Observe = None) -> None:
        """Make the env of a task; the worker closes the one before.

        Args:
            suite: The suite of the task.
            task: The name of the task.
            needs: The parts of its observations that are read; the others are left out.
        """
        self.worker.subject = f"task {task!r}"
        request = Open(self._next(), suite, task, needs)
        self.worker.ask(request, self._limits.start, "making the env")

    def attach(self, memory: int, rows: int, row: int) -> None:
        """Share memory in which this env has a row."""
        request = Attach(self._next(), rows, row)
        self.worker.ask(request, self._limits.start, "sharing memory", (memory,))

    def convert(self, needs: Observe) -> None:
        """Convert observations to LeRobot's names from now on.

        Args:
            needs: The leaves of the raw observation that the policy reads.
        """
        self.worker.ask(Convert(self._next(), needs), self._limits.start, "converting observations")

    def converted_space(self, converted: Converted) -> AnySpace:
        """The space of converted observations.

        Raises:
            WorkerDied: It makes no sense, so the worker was ended.
        """
        try:
            space = decode_space(converted.observation_space)
        except ValueError as exc:
            raise self.worker.broken(exc) from exc
        self._texts = frozenset(leaf.path for leaf in leaves(space) if leaf.dtype is None)
        return space

    def reset(
        self,
        seed: int | None,
        options: Any = None,
        observe: Observe = None,
        *,
        first: bool = False,
        index: int = 0,
    ) -> None:
        """Reset the env.

        Args:
            seed: The seed.
            options: What the env is told.
            observe: The leaves to fill.
            first: Whether to report the digest of the observation.
            index: That of the episode among those of its task.
        """
        request = Reset(self._next(), seed, portable(options), observe, first, index)
        self.worker.ask(request, self._limits.reset, "reset")

    def step(
        self,
        count: int = 1,
        *,
        observe: Observe = None,
        scored: bool = False,
        until_success: bool = False,
        final: bool = False,
    ) -> None:
        """Take steps with the actions in shared memory, at most `CHUNK`.

        Args:
            count: How many.
            observe: The leaves that the last one fills.
            scored: Whether to report successes instead of the info.
            until_success: Whether the first success ends the episode.
            final: Whether the episode has no further steps.
        """
        assert 1 <= count <= CHUNK
        request = Step(self._next(), count, observe, scored, until_success, final=final)
        self.worker.ask(request, self._step_limit(count), "step")

    def step_again(self) -> None:
        """Repeat the last request for a scored step, by an empty frame."""
        now = time.monotonic()
        self.worker.quick_step(self._next(), self._limits.step, now, sent=False, scored=True)

    def load_policy(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        spaces: Spaces,
        batch: Batch,
    ) -> None:
        """Make a policy in the env's worker."""
        observation, action = (encode_space(space) for space in spaces)
        request = LoadPolicy(self._next(), policy, benchmark, observation, action, batch)
        self.worker.ask(request, self._limits.start, "making the policy")

    def play(
        self,
        episode: EpisodeInfo,
        count: int,
        *,
        fresh: bool,
        until_success: bool,
        options: Any = None,
        delays: Delays | None = None,
    ) -> None:
        """Let the policy in the worker play up to `count` steps, at most `PLAY` per request."""
        final, count = count <= PLAY, min(count, PLAY)
        options = portable(options)
        request = Play(self._next(), episode, fresh, count, until_success, options, final, delays)
        # The worker says in its pulse what it is doing, and the limit of that holds; this is how
        # often the pulse is looked at.
        limits, step = self._limits, self._step_limit(count)
        limit = min(step, limits.act, limits.reset) if fresh else min(step, limits.act)
        self.worker.ask(request, limit, "play")

    def probe(
        self,
        name: str,
        suite: str = "",
        task: str = "",
        *,
        seed: int = 0,
        steps: int = 1,
        length: int = 1,
        cycles: int = 1,
    ) -> None:
        """Inspect a task for `envhub check`; `Probe` describes the arguments."""
        self.worker.subject = f"task {task!r}" if task else _name(self.spec.source)
        request = Probe(self._next(), name, suite, task, seed, steps, length, cycles)
        # An inspection makes, resets and steps several envs.
        limit = 2 * self._limits.start
        self.worker.ask(request, limit, f"inspection {name!r}")

    def watch(self, pulse: Any) -> None:
        """Use the pulse in shared memory to tell long episodes from hanging steps."""
        self._pulse = pulse
        self.worker.pulse = lambda: int(pulse[0])

    def step_with(self, action: Any, *, observe: Observe = None) -> None:
        """Take one step with an action that is sent in the message."""
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
        """Close the env; the worker stays alive."""
        self.worker.ask(Close(self._next()), self._limits.close, "close")

    def answer(self, reply_type: type[R]) -> R:
        """Wait for the answer; raise the error if the request failed."""
        reply = self.worker.wait()
        if isinstance(reply, WorkerError):
            raise reply
        assert isinstance(reply, reply_type)  # `messages.check` made sure of it
        return reply

    def spaces(
        self, opened: Opened, decode: Callable[[SpaceSpec, SpaceSpec], Spaces] = decode_spaces
    ) -> Spaces:
        """Decode the observation space and the action space of an opened env.

        Args:
            opened: The worker's answer.
            decode: Decodes both spaces; a cache, for example.

        Raises:
            WorkerDied: The spaces are not valid, so the worker was ended.
        """
        try:
            spaces = decode(opened.observation_space, opened.action_space)
        except ValueError as exc:
            raise self.worker.broken(exc) from exc
        self._texts = frozenset(leaf.path for leaf in leaves(spaces[0]) if leaf.dtype is None)
        return spaces

    def texts(self, reply: "WasReset | Stepped", observe: Observe = None) -> dict[str, str]:
        """Return the texts of an observation.

        Raises:
            WorkerDied: They do not match the observation space, so the worker was ended.
        """
        if not reply.texts and not self._texts:
            return reply.texts
        expected = self._texts if observe is None else self._texts & frozenset(observe)
        if reply.texts.keys() != expected:
            reason = BrokenChannel(
                f"it sent the texts {sorted(reply.texts)} instead of {sorted(expected)}"
            )
            raise self.worker.broken(reason)
        return reply.texts

    def _step_limit(self, count: int) -> float:
        """Return the time limit for a number of steps: that of one if the pulse reports each."""
        if self._pulse is None:
            return self._limits.step * count
        self._pulse[0] = 0
        return self._limits.step

    def _next(self) -> int:
        return self.worker.next_id()


class RemotePolicy:
    """A policy in a process of its own. Every method sends a request and returns at once."""

    def __init__(self, spec: PolicySpec, *, name: str, log: Path | None = None) -> None:
        """Start the process.

        Args:
            spec: How it is started.
            name: Its name in errors.
            log: A file for the beginning of its output.
        """
        self.worker = Worker(name, spec, log=log)
        self.worker.subject = "the policy"
        self._limits = spec.limits

    def load(
        self,
        policy: PolicySource,
        benchmark: Benchmark,
        spaces: Spaces,
        batch: Batch,
    ) -> None:
        """Make the policy for a pair of spaces."""
        observation, action = (encode_space(space) for space in spaces)
        number = self.worker.next_id()
        request = LoadPolicy(number, policy, benchmark, observation, action, batch)
        self.worker.ask(request, self._limits.start, "making")

    def map_slot(self, slot: int, policy: int, memory: int, converted: AnySpace | None) -> None:
        """Share the memory of a slot with the policy; its observations may be converted."""
        space = None if converted is None else encode_space(converted)
        request = MapSlot(self.worker.next_id(), slot, policy, space)
        self.worker.ask(request, self._limits.start, "sharing memory", (memory,))

    def act(
        self,
        policy: int,
        rows: tuple[BatchRow, ...],
        begin: tuple[EpisodeInfo, ...],
        finish: tuple[int, ...],
    ) -> None:
        """Let a policy act for rows, in one call or in several."""
        request = Act(self.worker.next_id(), policy, rows, begin, finish)
        self.worker.ask(request, self._limits.act, "acting")


def _name(source: Source) -> str:
    match source:
        case PluginSource(name=name):
            return f"plugin {name!r}"
        case FileSource(file=file, directory=directory):
            return f"{directory}/{file}"
