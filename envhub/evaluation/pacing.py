"""When to call the policy: at once, or after slots that are stepping have joined the batch.

Greedy batching is best for policies that are cheaper than a step. A policy that takes longer than a
step is better called for more slots at a time: waiting for one step saves a whole call.

How many rows a call has is the policy's to say, and changes results. How many calls a message asks
for is decided here, and changes none.
"""

import time

from envhub.evaluation.slot import Slot
from envhub.types import PolicyFacts

_IDLE = 0.25
"""Seconds to wait for an event if nothing else is due."""
_MESSAGE = 0.001
"""Seconds of calls that a message asks for at most. A message costs about a tenth of it, so that
sparing more messages would gain little, and rows would wait for the calls of others."""
_SOON = 5.0
"""Seconds of calls after which it is known what dominates a run."""


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


class MessageSize:
    """How many rows go to the policy in one message, by how long its calls take."""

    def __init__(self) -> None:
        self._call_seconds = 0.0

    def most(self, facts: PolicyFacts | None) -> int | None:
        """Return the greatest number of rows; None: all that wait.

        Args:
            facts: What the policy declares, if that is known.
        """
        if facts is None or facts.batch == "any":
            return None
        return facts.batch * max(1, int(_MESSAGE / (self._call_seconds or _MESSAGE)))

    def count(self, facts: PolicyFacts | None, rows: int, seconds: float) -> int:
        """Return the number of calls that rows took, and keep how long one takes."""
        calls = 1 if facts is None or facts.batch == "any" else -(-rows // facts.batch)
        self._call_seconds = running_average(self._call_seconds, seconds / calls)
        return calls


class OneRowCalls:
    """How much of a run's time the calls of a policy take that have one row while others wait."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._seconds = 0.0
        self._told = False

    def add(self, now: float, seconds: float, waiting: int, *, processes: int) -> str | None:
        """Note what calls took; return a sentence for the user if they dominate the run, once.

        Args:
            now: When they ended.
            seconds: How long they took.
            waiting: The rows that waited for actions, these included.
            processes: Those of the policy, which act at the same time.
        """
        if self._began is None:
            self._began = now - seconds
        if waiting > 1:
            self._seconds += seconds
        passed = now - self._began
        share = self._seconds / (passed * processes) if passed > _SOON else 0.0
        if self._told or share <= 0.5:
            return None
        self._told = True
        return (
            f"Calls of the policy take {share:.0%} of the time, one row each, while other rows "
            'wait. Set batch = N in the policy for calls with N rows, or batch = "any" if its '
            "rows do not influence each other: docs/policies.md."
        )


def running_average(before: float, now: float) -> float:
    """Return an average that follows changes within a few values."""
    return now if before == 0.0 else 0.8 * before + 0.2 * now
