"""A place where episodes are played: a worker with its env and its memory."""

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from envhub.errors import ContractError
from envhub.evaluation.playing import Playing
from envhub.types import HERE, Confinement, Interpreter, Limits
from envhub.worker.buffers import (
    CHUNK,
    SUCCESSES,
    Buffers,
    make_memory,
    needed_bytes,
    shared_action,
)
from envhub.worker.channel import BrokenChannel
from envhub.worker.protocol import Opened, Seen, Stepped, Ticked, WasReset
from envhub.worker.remote import Observe, RemoteEnv
from envhub.worker.spaces import Spaces, SpaceSpec, decode_spaces
from envhub.worker.values import portable

Array = np.ndarray[Any, Any]

_MOST_SPACES = 64
"""A worker that describes others every time must not fill the memory."""


class KnownSpaces:
    """Spaces that are described alike, as the same objects.

    Comparing those costs nothing; comparing two that are not takes Gymnasium some 20 ms for an
    image, at every step.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Spaces] = {}

    def of(self, observation: SpaceSpec, action: SpaceSpec) -> Spaces:
        """The spaces that are described so.

        Raises:
            ValueError: They make no sense.
        """
        described = msgspec.msgpack.encode((observation, action), enc_hook=portable)
        if described not in self._known:
            if len(self._known) >= _MOST_SPACES:
                self._known.clear()
            self._known[described] = decode_spaces(observation, action)
        return self._known[described]


class Slot:
    """One env at a time, in one worker at a time."""

    def __init__(
        self,
        index: int,
        limits: Limits,
        *,
        logs: Path | None,
        inline: bool,
        confinement: Confinement | None = None,
        interpreter: Interpreter = HERE,
        known: KnownSpaces | None = None,
    ) -> None:
        self.index = index
        self.remote: RemoteEnv | None = None
        self.playing: Playing | None = None
        self.task: str | None = None
        """The task that it is assigned to."""
        self.open_task: str | None = None
        """The task whose env is made."""
        self.spaces: Spaces | None = None
        self.memory = -1
        """The descriptor of the memory that it shares with its worker."""
        self.generation = 0
        """Counts memories, so that others know when theirs is an old one."""
        self.needs: Observe = None
        """The leaves of observations that the policy reads."""
        self.making_policy = False
        """Whether a policy beside the env is being made."""
        self.policy_for: Spaces | None = None
        """The spaces for which its worker has a policy beside the env."""
        self.abandoned = False
        """Whether the answer that is under way is of no interest any more."""
        self._limits = limits
        self._logs = logs
        self._inline = inline
        self._confinement = confinement
        self._interpreter = interpreter
        self._known = known or KnownSpaces()
        self._buffers: Buffers | None = None
        self._chunk: Array | None = None
        self._texts: dict[str, str] = {}
        self._count = 0
        self._observed: Observe = None
        self._again: tuple[Observe] | None = None
        """What one more step would show, if there was one."""

    def start(self, first: RemoteEnv | None = None) -> RemoteEnv:
        """Get a worker: a new one, or one that is there already."""
        log = self._logs / f"worker-{self.index}.log" if self._logs else None
        name = f"worker {self.index}"
        self.remote = first or RemoteEnv(
            name,
            self._limits,
            log=log,
            inline=self._inline,
            confinement=self._confinement,
            interpreter=self._interpreter,
        )
        self.open_task, self.spaces = None, None
        self.making_policy, self.policy_for, self.abandoned = False, None, False
        self._free_memory()
        return self.remote

    def live(self) -> RemoteEnv:
        """The worker's env."""
        assert self.remote is not None
        return self.remote

    def now(self) -> Playing:
        """The episode under way."""
        assert self.playing is not None
        return self.playing

    def take_spaces(self, opened: Opened) -> bool:
        """Note what the env is like; whether it needs another memory than before.

        Raises:
            WorkerError: The spaces make no sense.
            ContractError: The action space is of a kind that no policy can fill.
        """
        spaces = self.live().spaces(opened, self._known.of)
        if shared_action(spaces[1]) is None:
            raise ContractError(
                f"The action space {spaces[1]} is no single array; policies act in Box, Discrete, "
                "MultiDiscrete and MultiBinary spaces."
            )
        fresh = self._buffers is None or spaces != self.spaces
        self.spaces = spaces
        return fresh

    def share_memory(self) -> None:
        """Make the memory for the env's spaces, and ask the worker to map it."""
        assert self.spaces is not None
        self._free_memory()
        self.memory = make_memory(needed_bytes(1, *self.spaces))
        self.generation += 1
        self._buffers = Buffers(self.memory, 1, *self.spaces)
        self.attach()

    def attach(self) -> None:
        """Ask the worker to map the memory for the env that it has made."""
        assert self._buffers is not None
        self._again = None
        self.live().attach(self.memory, 1, 0)
        self.live().watch(self._buffers.pulse)

    def value(self, path: str) -> Any:
        """What the last observation has at a leaf."""
        if path in self._texts:
            return self._texts[path]
        return self._shared().observations[path][0]

    def note(self, reply: WasReset | Stepped, observe: Observe) -> None:
        """Keep the texts of an observation, which are not in the memory."""
        self._texts = self.live().texts(reply, observe)

    def seen(self) -> Seen:
        """The row that the policy is asked about."""
        playing = self.now()
        return Seen(self.index, playing.episode.number, playing.steps, self._texts)

    def take_chunk(self, chunk: Array) -> None:
        """Actions to be taken, one after the other."""
        self._chunk = chunk

    @property
    def has_actions(self) -> bool:
        """Whether actions are left."""
        return self._chunk is not None and len(self._chunk) > 0

    def step(self) -> None:
        """Take as many of the actions as one request holds; the last observation may be read."""
        assert self._chunk is not None
        playing, buffers = self.now(), self._shared()
        assert buffers.actions is not None
        count = min(len(self._chunk), CHUNK, playing.left)
        buffers.actions[0, :count] = self._chunk[:count]
        read = count == len(self._chunk) and count < playing.left
        self._count, self._observed = count, self.needs if read else ()
        if count == 1 and self._again == (self._observed,):
            self.live().step_again()
            return
        self._again = (self._observed,)
        self.live().step(
            count, observe=self._observed, scored=True, until_success=playing.until_success
        )

    def take_steps(self, reply: Stepped | Ticked) -> None:
        """Take in the steps that were taken."""
        assert self._chunk is not None
        if isinstance(reply, Ticked):
            reply = self._spelled(reply)
        taken = len(reply.rewards)
        self.note(reply, self._observed if taken == self._count else ())
        self.now().add(
            self._chunk[:taken],
            reply.rewards,
            reply.successes,
            terminated=reply.terminated,
            truncated=reply.truncated,
        )
        self._chunk = self._chunk[taken:]

    def _spelled(self, reply: Ticked) -> Stepped:
        """The answer that says itself what is in the memory."""
        number, reward, terminated, truncated, told = self._shared().outcome(0)
        if number != reply.id or told >= len(SUCCESSES):
            reason = BrokenChannel("it answered a step that it never took")
            raise self.live().worker.broken(reason)
        successes = [SUCCESSES[told]]
        return Stepped(number, [reward], terminated, truncated, successes, {}, {})

    def end_episode(self) -> None:
        """Forget the episode."""
        self.playing, self._chunk, self._texts = None, None, {}

    def close(self) -> None:
        """Free the memory; the worker is ended by whoever started it."""
        self._free_memory()

    def _shared(self) -> Buffers:
        assert self._buffers is not None
        return self._buffers

    def _free_memory(self) -> None:
        self._buffers = None
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1
