"""Tests and intervals for the difference of two policies. Pure, and exact where it can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import comb, sqrt
from statistics import NormalDist, mean, variance

import numpy as np

from envhub.results.statistics import (
    Columns,
    Counted,
    Tally,
    stratified,
    student_quantile,
    student_tail,
)

_EXACT_FLIPS = 12
"""With more, signs are drawn instead of enumerated."""
_FLIPS = 20_000
_TIE = 1 + 1e-7
"""Chances that differ by rounding are equal; the same margin as scipy's."""
_DRAWN_TOGETHER = 2**22
"""Signs: 4 MiB."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of one task: the same episode played by two policies, A and B."""

    n: int
    only_a: int
    """Pairs in which only A succeeded."""
    only_b: int

    @property
    def difference(self) -> float:
        """How much more often B succeeded, as a fraction."""
        return (self.only_b - self.only_a) / self.n


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact p-value of McNemar's test: in each unequal pair both are equally likely to win."""
    discordant = only_a + only_b
    ways, choices = 0, 1
    for wins in range(min(only_a, only_b) + 1):
        ways += choices
        choices = choices * (discordant - wins) // (wins + 1)
    return min(1.0, 2 * ways / (1 << discordant))


def difference_interval(
    tasks: Sequence[Pairs], confidence: float = 0.95, columns: Columns | None = None
) -> tuple[float, float]:
    """The interval of the mean difference of these tasks, each with the same weight.

    Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions
    based on paired data", 2012, with the variance estimated task by task as in `stratified`. The
    two pairs that they add, one won by each policy, keep it from being too narrow where few pairs
    differ.

    Args:
        tasks: At least one, each with at least one pair.
        confidence: Between 0 and 1, both excluded.
        columns: Of the pairs' differences, for tasks that share their seeds: the interval is then
            never narrower than that of the seeds as clusters, with a further one.
    """
    count, total = len(tasks), sum(task.n for task in tasks)
    prior_a = (sum(task.only_a for task in tasks) + 1) / (total + 2)
    prior_b = (sum(task.only_b for task in tasks) + 1) / (total + 2)
    spread = 2 * (count / (total + 2)) ** 2  # of the two added pairs
    for task in tasks:
        lost = (task.only_a + prior_a) / (task.n + 1)
        won = (task.only_b + prior_b) / (task.n + 1)
        correction = 1 - (1 - 1 / count) * task.n / (task.n + 1) ** 2
        spread += (won + lost - (won - lost) ** 2) / (task.n * correction)
    if columns is not None:
        if columns.count < 2:
            return -1.0, 1.0
        tail = (1 + confidence) / 2
        ratio = student_quantile(tail, columns.count - 1) / NormalDist().inv_cdf(tail)
        of_one = prior_a + prior_b - (prior_b - prior_a) ** 2
        spread = max(spread, columns.variance(of_one) * (ratio * count) ** 2)
    difference = sum(sorted(task.difference for task in tasks)) / count
    center = difference * total / (total + 2)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(spread) / count
    # Where one policy wins all pairs, the shrunken center can be far enough off to miss them.
    return max(-1.0, min(center - reach, difference)), min(1.0, max(center + reach, difference))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, for several tests at once."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    scaled = [min(1.0, (len(order) - rank) * p_values[i]) for rank, i in enumerate(order)]
    adjusted = dict(zip(order, accumulate(scaled, max), strict=True))
    return [adjusted[i] for i in range(len(p_values))]


def sign_flip(tasks: Sequence[Pairs]) -> float:
    """The p-value of a randomization test of the tasks' differences, for tasks like these."""
    return flip_signs([Fraction(task.only_b - task.only_a, task.n) for task in tasks])


def flip_signs(differences: Sequence[Fraction]) -> float:
    """The p-value of a randomization test: each difference is as likely to be for A as for B.

    Exact up to 12 differences; with more, 20,000 draws that are the same for the same ones.
    """
    seen = abs(sum(differences, Fraction(0)))
    values = sorted(abs(each) for each in differences if each)
    if len(values) <= _EXACT_FLIPS:
        sums = [Fraction(0)]
        for value in values:
            sums = [*(each + value for each in sums), *(each - value for each in sums)]
        return sum(abs(each) >= seen for each in sums) / len(sums)
    generator = np.random.default_rng(0)
    weights, least = np.array([float(each) for each in values]), float(seen) / _TIE
    hits, left = 0, _FLIPS
    while left:
        rows = min(left, max(1, _DRAWN_TOGETHER // len(values)))
        signs = generator.integers(0, 2, (rows, len(values)), dtype=np.int8) * 2 - 1
        hits += int((np.abs(signs @ weights) >= least).sum())
        left -= rows
    return (hits + 1) / (_FLIPS + 1)


def permute(a: Sequence[Fraction], b: Sequence[Fraction]) -> float:
    """The p-value of a permutation test: whether two samples have the same mean.

    20,000 draws that are the same for the same samples.
    """
    first, second = (sorted(float(each) for each in sample) for sample in (a, b))
    pooled, generator = np.array([*first, *second]), np.random.default_rng(0)
    seen = abs(mean(second) - mean(first)) / _TIE
    hits, left = 0, _FLIPS
    while left:
        rows = min(left, max(1, _DRAWN_TOGETHER // (8 * len(pooled))))
        drawn = generator.permuted(np.tile(pooled, (rows, 1)), axis=1)
        apart = drawn[:, len(first) :].mean(axis=1) - drawn[:, : len(first)].mean(axis=1)
        hits += int((np.abs(apart) >= seen).sum())
        left -= rows
    return (hits + 1) / (_FLIPS + 1)


def newcombe(
    a: Sequence[Counted],
    b: Sequence[Counted],
    confidence: float = 0.95,
    columns: tuple[Columns | None, Columns | None] = (None, None),
) -> tuple[float, float]:
    """The interval of the difference of two independent runs.

    Newcombe, "Interval estimation for the difference between independent proportions", 1998,
    method 10, with the stratified interval of each run; for one task it is Newcombe's own.
    """
    rate_a, rate_b = _mean_rate(a), _mean_rate(b)
    first = stratified(a, confidence, columns[0])
    second = stratified(b, confidence, columns[1])
    low = rate_b - rate_a - sqrt((rate_b - second.low) ** 2 + (first.high - rate_a) ** 2)
    high = rate_b - rate_a + sqrt((second.high - rate_b) ** 2 + (rate_a - first.low) ** 2)
    return max(-1.0, low), min(1.0, high)


@dataclass(frozen=True, slots=True)
class ExactTest:
    """An exact test of independent runs, task by task."""

    p: float
    """Two-sided."""
    direction: int
    """1 if B has more successes than expected where both are equal, -1 if fewer, else 0."""


def exact_conditional(a: Sequence[Tally], b: Sequence[Tally]) -> ExactTest:
    """Test two independent runs for equal rates in every task; of one task it is Fisher's test.

    Given the episodes and all successes of each task, A's share of these is hypergeometric. The sum
    over the tasks is compared with its own distribution, so that tasks of unlike difficulty, played
    unequally often, show no difference where there is none.
    """
    chances, least, seen, expected = np.ones(1), 0, 0, 0.0
    for (successes_a, n_a), (successes_b, n_b) in zip(a, b, strict=True):
        successes = successes_a + successes_b
        first, of_task = _hypergeometric(n_a, n_b, successes)
        chances, least = np.convolve(chances, of_task), least + first
        seen += successes_a
        expected += successes * n_a / (n_a + n_b)
    as_rare = chances[seen - least] * _TIE
    p = min(1.0, float(chances[chances <= as_rare].sum()))
    excess = expected - seen
    return ExactTest(p, 0 if abs(excess) < 1e-9 else 1 if excess > 0 else -1)


def fisher(a: Tally, b: Tally) -> float:
    """The two-sided p-value of Fisher's exact test for two rates."""
    return exact_conditional([a], [b]).p


@dataclass(frozen=True, slots=True)
class GroupTest:
    """The difference of the mean rates of two groups of runs."""

    difference: float
    low: float
    """The 95 % interval; [-1, 1] where the rates of a group's runs do not vary."""
    high: float
    degrees: float | None
    p: float


def welch(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> GroupTest:
    """Welch's test of the rates of several runs, such as of several training seeds.

    Args:
        a: The rates of the reference's runs, at least two.
        b: The rates of the candidate's runs, at least two.
        confidence: Between 0 and 1, both excluded.
    """
    difference = mean(b) - mean(a)
    parts = [(variance(rates) / len(rates), len(rates) - 1) for rates in (a, b)]
    error = sqrt(sum(part for part, _ in parts))
    if error == 0.0:
        return GroupTest(difference, -1.0, 1.0, None, 1.0)
    degrees = error**4 / sum(part * part / free for part, free in parts)
    reach = student_quantile((1 + confidence) / 2, degrees) * error
    low, high = max(-1.0, difference - reach), min(1.0, difference + reach)
    return GroupTest(
        difference, low, high, degrees, 2 * student_tail(abs(difference) / error, degrees)
    )


def _hypergeometric(n_a: int, n_b: int, successes: int) -> tuple[int, list[float]]:
    """The fewest successes that A can have of all, and the chances of so many, one more, ..."""
    first, last = max(0, successes - n_b), min(n_a, successes)
    ways = comb(n_a + n_b, successes)
    return first, [comb(n_a, k) * comb(n_b, successes - k) / ways for k in range(first, last + 1)]


def _mean_rate(tallies: Sequence[Counted]) -> float:
    """The mean of the tasks' rates."""
    return sum(sorted(successes / n for successes, n in tallies)) / len(tallies)
