"""A slot plays episodes: a worker with its env and its shared memory."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from envhub.errors import ContractError
from envhub.evaluation.attempt import Attempt
from envhub.host.remote import Observe, RemoteEnv
from envhub.types import PolicyFacts, WorkerSpec
from envhub.wire.delayed import check_hold
from envhub.wire.frames import BrokenChannel
from envhub.wire.memory import CHUNK, SUCCESSES, Buffers, make_memory, needed_bytes, shared_action
from envhub.wire.messages import (
    BatchRow,
    Converted,
    Opened,
    Played,
    QuickStepped,
    Stepped,
    WasReset,
)
from envhub.wire.spaces import AnySpace, Spaces, SpaceSpec, decode_spaces
from envhub.wire.values import Array, portable

_MOST_SPACES = 64
"""The limit of known spaces: a worker with ever new ones must not fill the memory."""


class KnownSpaces:
    """Decodes equal descriptions of spaces to the same objects.

    Comparing a space with itself costs nothing; comparing two equal spaces of an image takes
    Gymnasium some 20 ms, at every step.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Spaces] = {}

    def of(self, observation: SpaceSpec, action: SpaceSpec) -> Spaces:
        """Return the spaces with these descriptions.

        Raises:
            ValueError: The descriptions are invalid.
        """
        key = msgspec.msgpack.encode((observation, action), enc_hook=portable)
        if key not in self._known:
            if len(self._known) >= _MOST_SPACES:
                self._known.clear()
            self._known[key] = decode_spaces(observation, action)
        return self._known[key]


class Slot:
    """Has one worker at a time, with one env at a time."""

    def __init__(
        self,
        index: int,
        spec: WorkerSpec,
        *,
        logs: Path | None,
        inline: bool,
        known: "KnownSpaces | None" = None,
        first_leaves: Mapping[int, Observe] | None = None,
    ) -> None:
        self.index = index
        self.remote: RemoteEnv | None = None
        """Its worker, if it has one."""
        self.current: Attempt | None = None
        """The attempt under way, if there is one."""
        self.task: str | None = None
        """The task that it is assigned to."""
        self.loaded = False
        """Whether its worker has loaded the benchmark."""
        self.open_task: str | None = None
        """The task whose env is made."""
        self.spaces: Spaces | None = None
        self.converted: AnySpace | None = None
        """The space of observations that the worker converts to LeRobot's names."""
        self.memory = -1
        """The descriptor of the memory shared with its worker."""
        self.generation = 0
        """Counts the memories, so that a policy knows when its mapping is outdated."""
        self.needs: Observe = None
        """The leaves of observations that the policy reads."""
        self.drawn: Observe = None
        """The leaves that the env fills for it: what converted observations are made of."""
        self.making_policy = False
        """Whether a policy is being made in the worker."""
        self.worker_policy: tuple[Spaces, PolicyFacts] | None = None
        """The spaces of the worker's policy, and what that policy declares."""
        self.abandoned = False
        """Whether the next answer of the worker is to be dropped."""
        self.repeated: Attempt | None = None
        """An attempt that has ended, whose reset the worker repeats."""
        self._ended: Attempt | None = None
        self._spec = spec
        self._logs = logs
        self._inline = inline
        self._known = known or KnownSpaces()
        self._first_leaves = first_leaves or {}
        self._buffers: Buffers | None = None
        self._chunk: Array | None = None
        self._texts: dict[str, str] = {}
        self._count = 0
        self._observed: Observe = None
        # A step with the same leaves as the last one costs only an empty frame; None: no last step.
        self._last_observed: tuple[Observe] | None = None

    def start(self, first: RemoteEnv | None = None) -> RemoteEnv:
        """Start a worker, or take over `first`."""
        log = self._logs / f"worker-{self.index}.log" if self._logs else None
        name = f"worker {self.index}"
        self.remote = first or RemoteEnv(name, self._spec, log=log, inline=self._inline)
        self.loaded = first is not None
        self.open_task, self.spaces, self.converted = None, None, None
        self.making_policy, self.worker_policy, self.abandoned = False, None, False
        self.repeated = self._ended = None
        self._free_memory()
        return self.remote

    @property
    def env(self) -> RemoteEnv:
        """The env in the worker."""
        assert self.remote is not None
        return self.remote

    @property
    def attempt(self) -> Attempt:
        """The attempt under way."""
        assert self.current is not None
        return self.current

    def take_spaces(self, opened: Opened) -> bool:
        """Set the spaces of the env; returns whether they need new shared memory.

        Raises:
            WorkerError: The spaces are invalid.
            ContractError: Policies cannot act in such an action space, or `hold` is none of it.
        """
        spaces = self.env.spaces(opened, self._known.of)
        if shared_action(spaces[1]) is None:
            raise ContractError(
                f"The action space {spaces[1]} is not a single array; policies act in Box, "
                "Discrete, MultiDiscrete and MultiBinary spaces."
            )
        if self.attempt.delays is not None:
            check_hold(self.attempt.delays, spaces[1])
        fresh = self._buffers is None or spaces != self.spaces or self.converted is not None
        self.spaces, self.converted = spaces, None
        return fresh

    def take_converted(self, converted: Converted) -> None:
        """Note what converted observations are like.

        Raises:
            WorkerError: Their space makes no sense.
        """
        self.converted = self.env.converted_space(converted)

    def share_memory(self) -> None:
        """Make the memory for the env's spaces, and ask the worker to map it."""
        assert self.spaces is not None
        self._free_memory()
        observation, action = self.spaces
        shown = observation if self.converted is None else self.converted
        self.memory = make_memory(needed_bytes(1, shown, action))
        self.generation += 1
        self._buffers = Buffers(self.memory, 1, shown, action)
        self.attach()

    def attach(self) -> None:
        """Ask the worker to map the memory for the env that it has made."""
        assert self._buffers is not None
        self._last_observed = None
        self.env.attach(self.memory, 1, 0)
        self.env.watch(self._buffers.pulse)

    def value(self, path: str) -> Any:
        """Return the value of the last observation at a leaf."""
        if path in self._texts:
            return self._texts[path]
        return self._shared().value(path)

    def keep_texts(self, reply: WasReset | Stepped, observe: Observe) -> None:
        """Keep the texts of an observation, which are not in the shared memory."""
        self._texts = self.env.texts(reply, observe)

    def take_reset(self, reply: WasReset) -> None:
        """Note what the episode begins with."""
        self.attempt.instruct(reply.description)
        self.attempt.begin_with(reply.first, self._at_reset(self.drawn))
        self.keep_texts(reply, self._at_reset(self.needs))

    def reset(self) -> None:
        """Request the reset that begins the episode."""
        attempt, leaves = self.attempt, self._at_reset(self.needs)
        episode = attempt.episode
        self.env.reset(episode.seed, attempt.options, leaves, first=True, index=episode.index)

    def _at_reset(self, leaves: Observe) -> Observe:
        """Return the leaves of the episode's first observation, if they are not the policy's."""
        return self._first_leaves.get(self.attempt.episode.number, leaves)

    def repeat_reset(self) -> bool:
        """Request the reset of the last episode once more; returns whether it can be compared."""
        last = self._ended
        if self.remote is None or last is None or last.first is None:
            return False
        if self.open_task != last.episode.task or last.episode.number in self._first_leaves:
            return False
        self.repeated = last
        self.env.reset(last.episode.seed, last.options, self.needs, first=True)
        return True

    def take_repeated(self, reply: WasReset) -> Attempt | None:
        """Return the attempt whose reset has just been repeated, if it began otherwise."""
        before, self.repeated = self.repeated, None
        assert before is not None
        again = Attempt(before.episode, before.task, before.number)
        again.begin_with(reply.first, self.drawn)
        if again.first is None or before.first is None or again.first[1] != before.first[1]:
            return None
        return before if again.first != before.first else None

    def row(self) -> BatchRow:
        """Return the slot's row in a batch for the policy."""
        attempt = self.attempt
        number, steps = attempt.episode.number, attempt.outcome.steps
        committed = attempt.committed(spaces_of(self)[1])
        return BatchRow(self.index, number, steps, self._texts, portable(committed))

    def take_chunk(self, chunk: Array) -> None:
        """Set the actions to take, one after the other."""
        self._chunk = self.attempt.delayed(chunk)

    @property
    def has_actions(self) -> bool:
        """Whether actions are left."""
        return self._chunk is not None and len(self._chunk) > 0

    def step(self) -> None:
        """Request as many steps as one request holds; only the last observation may be read."""
        assert self._chunk is not None
        outcome, buffers = self.attempt.outcome, self._shared()
        assert buffers.actions is not None
        count = min(len(self._chunk), CHUNK, outcome.left)
        buffers.actions[0, :count] = self._chunk[:count]
        read = count == len(self._chunk) and count < outcome.left
        self._count, self._observed = count, self.needs if read else ()
        final = count == outcome.left
        if count == 1 and self._last_observed == (self._observed,) and not final:
            self.env.step_again()
            return
        self._last_observed = (self._observed,)
        self.env.step(
            count,
            observe=self._observed,
            scored=True,
            until_success=outcome.until_success,
            final=final,
        )

    def take_steps(self, reply: Stepped | QuickStepped) -> None:
        """Add the steps that the worker took to the attempt."""
        assert self._chunk is not None
        if isinstance(reply, QuickStepped):
            reply = self._from_memory(reply)
        taken = len(reply.rewards)
        self.keep_texts(reply, self._observed if taken == self._count else ())
        self.attempt.add(
            self._chunk[:taken],
            reply.rewards,
            reply.successes,
            terminated=reply.terminated,
            truncated=reply.truncated,
        )
        self.attempt.end_in(reply.state)
        self._chunk = self._chunk[taken:]

    def take_played(self, reply: Played) -> None:
        """Add the steps that the worker took with the policy's actions to the attempt."""
        space, taken = spaces_of(self)[1], len(reply.rewards)
        actions, expected = reply.actions, (taken, *(space.shape or ()))
        if not isinstance(actions, np.ndarray) or actions.shape != expected:
            raise self.env.worker.broken(ContractError("it sent something else than actions"))
        if reply.description is not None:
            self.attempt.instruct(reply.description)
        if not self.attempt.outcome.steps:
            self.attempt.begin_with(reply.first, self.drawn)
        self.attempt.count_calls(reply.calls, reply.held)
        self.attempt.add(
            actions.astype(space.dtype, copy=False),
            reply.rewards,
            reply.successes,
            terminated=reply.terminated,
            truncated=reply.truncated,
        )
        self.attempt.end_in(reply.state)

    def _from_memory(self, reply: QuickStepped) -> Stepped:
        """Read the full reply from the shared memory."""
        number, reward, terminated, truncated, success = self._shared().step_result(0)
        if number != reply.id or success >= len(SUCCESSES):
            reason = BrokenChannel("it answered a step that it never took")
            raise self.env.worker.broken(reason)
        successes = [SUCCESSES[success]]
        return Stepped(number, [reward], terminated, truncated, successes, {}, {})

    def end_episode(self) -> None:
        """Forget the episode."""
        if self.current is not None and self.current.outcome.ended:
            self._ended = self.current
        self.current, self._chunk, self._texts = None, None, {}

    def close(self) -> None:
        """Free the memory; the pool ends the worker."""
        self._free_memory()

    def _shared(self) -> Buffers:
        assert self._buffers is not None
        return self._buffers

    def _free_memory(self) -> None:
        self._buffers = None
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1


def spaces_of(slot: Slot) -> Spaces:
    """Return the spaces of a slot whose env is made."""
    assert slot.spaces is not None
    return slot.spaces


def batch_of(
    waiting: Sequence[Slot],
    policy: Callable[[Slot], int | None],
    most: Callable[[Slot], int | None],
) -> tuple[Slot, ...]:
    """Return the slots of one message: those with the same policy, or one that must be alone.

    Args:
        waiting: The slots that wait for actions.
        policy: Returns which policy acts for a slot.
        most: Returns the number of slots that a message to its policy has at most; None: any.
    """
    for slot in waiting:
        if slot.attempt.alone:
            return (slot,)
    if not waiting:
        return ()
    first = policy(waiting[0])
    return tuple([slot for slot in waiting if policy(slot) == first][: most(waiting[0])])
