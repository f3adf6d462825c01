"""The seeds of a task's episodes. Pure: `docs/runs.md` states the formula, with worked values."""

import hashlib
from collections.abc import Sequence
from typing import Literal

Seeding = Literal["task", "shared"]
"""`task`: every task has seeds of its own. `shared`: episode k has seed `base + k` in every task,
as in the loops of other programs."""

DEFAULT_SEEDING: Seeding = "task"
"""Of new runs; those that were begun before there was a choice are shared."""


def make_seeds(seeding: Seeding, base: int, task: str, count: int) -> Sequence[int]:
    """Return the seeds of a task's episodes, in order; more episodes change none of them.

    Those of a task are below 2^31, for simulators that take no larger ones.

    Args:
        seeding: Whether the tasks share their seeds.
        base: The seed of the run.
        task: The name of the task, or of the task whose seeds it shares.
        count: The number of episodes.
    """
    if seeding == "shared":
        return range(base, base + count)
    from numpy.random import SeedSequence  # where a run is listed only, numpy is not needed

    digest = hashlib.sha256(task.encode()).digest()
    words = [int.from_bytes(digest[start : start + 4], "little") for start in (0, 4)]
    state = SeedSequence(base, spawn_key=words).generate_state(count)
    seeds: list[int] = (state >> 1).tolist()
    return seeds
