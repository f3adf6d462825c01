"""When to ask the policy: at once, or after slots that are stepping have joined the batch.

Greedy batching is best for policies that are cheaper than a step. A policy that takes longer than a
step is better asked about more slots at a time: waiting for one step saves a whole call.
"""

import time

from envhub.evaluation.slot import Slot

_IDLE = 0.25
"""Seconds to wait for an event where nothing has to be looked after meanwhile."""


class Pacing:
    """How long steps take, and which slots are stepping."""

    def __init__(self) -> None:
        self._step_seconds = 0.0
        self._since: dict[int, float] = {}

    def stepping(self, slot: Slot) -> None:
        """A slot takes a step now."""
        self._since[slot.index] = time.monotonic()

    def stepped(self, slot: Slot) -> None:
        """It has taken it."""
        seconds = time.monotonic() - self._since.pop(slot.index)
        self._step_seconds = running_average(self._step_seconds, seconds)

    def forget(self, slot: Slot) -> None:
        """Its step will not be taken."""
        self._since.pop(slot.index, None)

    def holds_back(self, call_seconds: float) -> bool:
        """Whether to wait for slots that are stepping before the policy is asked.

        Args:
            call_seconds: What a call of the policy takes.
        """
        if not call_seconds > self._step_seconds > 0.0:
            return False
        now = time.monotonic()
        return any(now - since < call_seconds for since in self._since.values())

    def timeout(self, *, holding_back: bool) -> float:
        """Seconds to wait for the next event."""
        return max(self._step_seconds, 0.001) if holding_back else _IDLE


def running_average(before: float, now: float) -> float:
    """An average that follows changes within a few values."""
    return now if before == 0.0 else 0.8 * before + 0.2 * now
