"""The hashes of an episode's steps, which two processes compare."""

from collections.abc import Sequence

from envhub.wire.messages import TraceStep


def first_difference(one: Sequence[TraceStep], other: Sequence[TraceStep]) -> str | None:
    """Say in what two episodes differ first, and at which step; None if they do not."""
    for step, (left, right) in enumerate(zip(one, other, strict=False)):
        parts = sorted(part for part in left | right if left.get(part) != right.get(part))
        if parts:
            when = "at reset" if step == 0 else f"at step {step - 1}"
            return f"{', '.join(part or 'the observation' for part in parts)} {when}"
    if len(one) != len(other):
        return f"the number of steps, {len(one) - 1} and {len(other) - 1}"
    return None
