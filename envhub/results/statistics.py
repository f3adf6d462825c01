"""Intervals for rates. Pure; the same outcomes give the same interval on every call."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

DRAWS = 10_000
SEED = 0
TASKS_TO_RESAMPLE = 5
"""With fewer tasks than this, resampling tasks says little: 4 of them give 35 different draws."""

_TAIL = DRAWS // 40
"""The number of draws beyond either end of a 95 % interval."""

_Tally = tuple[int, int]
"""The successes and the episodes of one task."""


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for the rate of one task.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.

    Args:
        successes: How many of the episodes succeeded.
        n: How many episodes there were; with 0 nothing is known, which is `(0.0, 1.0)`.
        confidence: Between 0 and 1, both excluded.

    Raises:
        ValueError: There cannot be that many successes, or no such confidence.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} episodes cannot have succeeded.")
    if not n:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = successes / n
    scale = 1 + z * z / n
    center = (rate + z * z / (2 * n)) / scale
    reach = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / scale
    # Both ends are exact there; the formula misses them by a rounding error.
    low = 0.0 if successes == 0 else center - reach
    high = 1.0 if successes == n else center + reach
    return low, high


def bootstrap_tasks(outcomes: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean over tasks of their rates.

    With 5 tasks or more, tasks are resampled: each of 10,000 draws picks as many tasks as there
    are, with replacement, and averages their rates. With fewer, the tasks are kept and each one's
    episodes are resampled. The number of successes among `n` episodes that are picked with
    replacement is binomial, so it is drawn as one number, whatever `n` is.

    The generator is PCG64 with seed 0. It gives all draws' first pick, then all draws' second
    pick, and so on; below 5 tasks, all draws of the first task, then of the second. Tasks are
    sorted by successes and episodes before, so their order does not matter. The interval leaves
    out the 250 smallest and the 250 largest draws; nothing is interpolated.

    Args:
        outcomes: For each task, whether its episodes succeeded. Tasks without episodes are left
            out; if none remains nothing is known, which is `(0.0, 1.0)`.
    """
    tallies = sorted((sum(task), len(task)) for task in outcomes if len(task))
    if not tallies:
        return 0.0, 1.0
    rng = np.random.Generator(np.random.PCG64(SEED))
    resample = _resample_episodes if len(tallies) < TASKS_TO_RESAMPLE else _resample_tasks
    means = np.sort(resample(tallies, rng))
    return float(means[_TAIL]), float(means[-1 - _TAIL])


def _resample_tasks(tallies: list[_Tally], rng: np.random.Generator) -> NDArray[np.float64]:
    rates = np.array([successes / n for successes, n in tallies])
    total = np.zeros(DRAWS)
    # One pick of all draws at a time: memory does not grow with the tasks.
    for _ in tallies:
        total += rates[rng.integers(len(rates), size=DRAWS)]
    # If all tasks have the same rate, so has every draw, but adding up rounds.
    return np.clip(total / len(rates), rates.min(), rates.max())


def _resample_episodes(tallies: list[_Tally], rng: np.random.Generator) -> NDArray[np.float64]:
    total = np.zeros(DRAWS)
    for successes, n in tallies:
        total += rng.binomial(n, successes / n, size=DRAWS) / n
    return total / len(tallies)
