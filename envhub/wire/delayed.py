"""Latency in simulated time: the world goes on while a policy thinks. Pure.

A call of the policy sees the observation at its start, and its result acts some steps later. Host
and workers follow the same rules, so that an episode is the same wherever its policy acts.
"""

import hashlib

import numpy as np
from gymnasium.spaces import Space

from envhub.errors import ContractError
from envhub.options import Delays
from envhub.wire.values import Array


class DelayedActions:
    """The actions of one episode, each chunk of which comes some steps after it was asked for.

    With `wait` the robot holds still until the whole chunk is there. With `overlap` the last
    actions of a chunk are left for the time of the next call, and the new chunk goes on where they
    end: of a chunk of n actions that comes d steps late those from d to n - d are taken, and the
    last d stay. Chunks of 2 d actions or fewer, and the first call, are as with `wait`.
    """

    def __init__(
        self, delays: Delays, space: Space[Array], *, seed: int, task: str, index: int
    ) -> None:
        """Begin an episode.

        Args:
            delays: How late results are, and what is done meanwhile.
            space: The action space.
            seed: The episode's seed.
            task: Its task.
            index: Its index among the task's episodes.
        """
        self.calls = 0
        """The calls whose results were taken."""
        self.held = 0
        """The steps that were taken with an action that holds the robot still."""
        self._delays = delays
        self._shape, self._dtype = space.shape or (), np.dtype(space.dtype)
        hold = np.array(delays.hold or [0.0] * int(np.prod(self._shape)))
        self._still = hold.astype(self._dtype).reshape(self._shape)
        self._seeds = (seed, int.from_bytes(hashlib.sha256(task.encode()).digest()[:8]), index)
        self._last: Array | None = None
        self._tail = np.empty((0, *self._shape), self._dtype)
        self._committed: Array | None = None
        self._holding = range(0)
        self._next_holding = range(0)
        self._at = 0

    def begin_call(self) -> Array:
        """Return what is done while the call lasts; the same until its result is taken."""
        if self._committed is None:
            delay = self._draw()
            tail = self._tail[:delay]
            holding = np.broadcast_to(self._hold(), (delay - len(tail), *self._shape))
            self._committed = np.concatenate([tail, holding]).astype(self._dtype, copy=False)
            self._next_holding = range(len(tail), delay)
        return self._committed

    def take(self, chunk: Array) -> Array:
        """Return the actions until the next call, of the chunk that the policy answered."""
        committed, size = self.begin_call(), len(chunk)
        late = len(committed)
        begin, end = 0, size
        if self._delays.mode == "overlap" and size > 2 * late:
            # What was meant for steps that other actions of the policy have filled is too late.
            begin, end = self._next_holding.start, size - late
        actions = np.concatenate([committed, chunk[begin:end]])
        self.calls += 1
        self._tail, self._committed = chunk[end:], None
        self._last, self._holding, self._at = actions[-1], self._next_holding, 0
        return actions

    def taken(self, steps: int) -> None:
        """Note that the first of the actions that were returned last, or the next, were taken."""
        begin, self._at = self._at, self._at + steps
        held = range(max(begin, self._holding.start), min(self._at, self._holding.stop))
        self.held += len(held)

    def _hold(self) -> Array:
        """The action that holds the robot still now."""
        if self._last is None or self._delays.keeps == "none":
            return self._still
        if self._delays.keeps == "all":
            return self._last
        action = self._still.copy()
        action[-1] = self._last[-1]
        return action

    def _draw(self) -> int:
        """Return how many steps late this call's result is."""
        counts = self._delays.steps
        if len(counts) == 1:
            return counts[0][0]
        rng = np.random.default_rng([*self._seeds, self.calls])
        left = int(rng.integers(sum(count for _, count in counts)))
        for steps, count in counts:
            if left < count:
                return steps
            left -= count
        raise AssertionError(counts)


def check_hold(delays: Delays, space: Space[Array]) -> None:
    """Refuse a `hold` that is no action of the space.

    Raises:
        ContractError: It has another number of numbers.
    """
    size, found = int(np.prod(space.shape or ())), len(delays.hold)
    if found not in (0, size):
        raise ContractError(
            f"The benchmark's hold has {found} numbers and its actions have {size}: --latency "
            "needs one for each."
        )
