"""When to call the policy: at once, or after slots that are stepping have joined the batch.

Greedy batching is best for policies that are cheaper than a step. A policy that takes longer than a
step is better called for more slots at a time: waiting for one step saves a whole call.
"""

import time

from envhub.evaluation.slot import Slot

_IDLE = 0.25
"""Seconds to wait for an event if nothing else is due."""


class Pacing:
    """How long steps take, and which slots are stepping."""

    def __init__(self) -> None:
        self._step_seconds = 0.0
        self._since: dict[int, float] = {}

    def step_began(self, slot: Slot) -> None:
        """Note that a slot begins a step."""
        self._since[slot.index] = time.monotonic()

    def step_ended(self, slot: Slot) -> None:
        """Note that a slot has ended its step."""
        seconds = time.monotonic() - self._since.pop(slot.index)
        self._step_seconds = running_average(self._step_seconds, seconds)

    def forget(self, slot: Slot) -> None:
        """Note that a slot will not end its step."""
        self._since.pop(slot.index, None)

    def holds_back(self, call_seconds: float) -> bool:
        """Whether to wait for slots that are stepping before calling the policy.

        Args:
            call_seconds: The average duration of a call of the policy.
        """
        if not call_seconds > self._step_seconds > 0.0:
            return False
        now = time.monotonic()
        return any(now - since < call_seconds for since in self._since.values())

    def timeout(self, *, holding_back: bool) -> float:
        """Return the seconds to wait for the next event."""
        return max(self._step_seconds, 0.001) if holding_back else _IDLE


def running_average(before: float, now: float) -> float:
    """Return an average that follows changes within a few values."""
    return now if before == 0.0 else 0.8 * before + 0.2 * now
