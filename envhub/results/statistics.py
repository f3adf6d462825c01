"""Intervals for rates. Pure: the same outcomes give the same interval, in any order.

Two questions have two intervals. *These tasks*, played again with other episodes: `wilson` for one
task, `stratified` for several. *Tasks like these*, of which these are a sample: `tasks_like_these`.
All are Wilson's, with the number of episodes that would tell as much in one pool.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, exp, lgamma, log, log1p, sqrt
from statistics import NormalDist, variance

TASKS_FOR_A_SAMPLE = 5
"""With fewer tasks nothing is said of tasks like these: the interval would be most of [0, 1]."""

Tally = tuple[int, int]
"""The successes and the episodes of one task."""
Counted = tuple[float, int]
"""The same, or where episodes repeat each other: the successes that as many episodes as are
distinct would have at the rate of all."""


@dataclass(frozen=True, slots=True)
class Columns:
    """How the mean rate varies from one seed to the next, where tasks share their seeds."""

    count: int
    """Of the seeds."""
    spread: float
    """The sum of the squares of what each adds to the deviation of the mean."""

    def variance(self, of_one: float) -> float:
        """Return the variance of the mean, as of seeds that are independent of each other.

        Args:
            of_one: The variance of a further seed, whose episodes have one outcome. It keeps the
                variance from being taken for zero where it only looks so.
        """
        return (self.spread * self.count**2 + of_one) / (self.count * (self.count - 1))

    def scaled(self, factor: float) -> "Columns":
        """Return those of so many times as many seeds, which vary as these do."""
        return Columns(round(self.count * factor), self.spread / factor)


@dataclass(frozen=True, slots=True)
class Sample:
    """The episodes of several tasks, as intervals count them."""

    tallies: Sequence[Counted]
    """Of each task that has episodes."""
    columns: Columns | None = None
    """Where the tasks share their seeds."""

    @property
    def rate(self) -> float:
        """The mean rate of the tasks."""
        return _mean_rate(self.tallies)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval for the mean rate of several tasks."""

    low: float
    high: float
    n_effective: float
    """Episodes of a single pool that would tell as much."""


def wilson(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
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
    return _score_interval(successes / n, n, confidence) if n else (0.0, 1.0)


def stratified(
    tallies: Sequence[Counted], confidence: float = 0.95, columns: Columns | None = None
) -> Interval:
    """The interval of the mean rate of these tasks, each with the same weight.

    The variance of the mean is estimated task by task, each rate shrunk to the mean by the weight
    of one episode, so that a task without failures does not count as one without variance. Wilson's
    interval is then taken for as many episodes of a single pool as would have that variance. For
    one task this is Wilson's own interval; for tasks that are alike, that of the pooled episodes.

    Args:
        tallies: Successes and episodes of each task; tasks without episodes are left out. If none
            remains nothing is known, which is [0, 1].
        confidence: Between 0 and 1, both excluded.
        columns: Of tasks that share their seeds: one seed may be easy in all of them. The interval
            is then never narrower than that of the seeds as clusters.
    """
    played = [(successes, n) for successes, n in tallies if n]
    if not played:
        return Interval(0.0, 1.0, 0.0)
    count, rate = len(played), _mean_rate(played)
    if rate in (0.0, 1.0):
        n_effective = count * count / sum(sorted(1 / n for _, n in played))
    else:
        n_effective = rate * (1 - rate) / _variance_of_mean(played, rate)
    if columns is not None and count > 1:
        n_effective = min(n_effective, _clustered(columns, rate, confidence))
    return Interval(*_score_interval(rate, n_effective, confidence), n_effective)


def tasks_like_these(
    tallies: Sequence[Counted],
    confidence: float = 0.95,
    columns: Columns | None = None,
    *,
    bounded: bool = True,
) -> Interval | None:
    """The interval of the mean rate of tasks of which these are a sample.

    Korn and Graubard, "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", 1998, with Wilson's interval in place of Clopper-Pearson's.
    It is never narrower than `stratified`: these tasks are known better than others like them.

    Returns:
        None with fewer than 5 tasks.
    """
    played = [(successes, n) for successes, n in tallies if n]
    if len(played) < TASKS_FOR_A_SAMPLE:
        return None
    rate, episodes = _mean_rate(played), sum(n for _, n in played)
    spread = variance(successes / n for successes, n in played) / len(played)
    n_effective = float(episodes)
    if bounded:  # as it was not in summaries from before 0.2
        n_effective = min(n_effective, stratified(tallies, confidence, columns).n_effective)
    if spread > 0:
        tail = (1 + confidence) / 2
        ratio = student_quantile(tail, episodes - 1) / student_quantile(tail, len(played) - 1)
        n_effective = min(n_effective, rate * (1 - rate) / spread * ratio * ratio)
    return Interval(*_score_interval(rate, n_effective, confidence), n_effective)


@cache
def student_quantile(probability: float, degrees: float) -> float:
    """The quantile of Student's t distribution, for probabilities from one half up."""
    if probability == 0.5:
        return 0.0
    high = 1.0
    while _student_cdf(high, degrees) < probability:
        high *= 2
    low = 0.0
    for _ in range(200):  # until the two are neighbours
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _student_cdf(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def student_tail(t: float, degrees: float) -> float:
    """How likely a value of Student's t distribution above t is, for t from 0 up."""
    return _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2


def _clustered(columns: Columns, rate: float, confidence: float) -> float:
    """Return the episodes of a pool that tell as much as these seeds, each one cluster."""
    seeds = columns.count
    if seeds < 2:
        return 1.0
    tail = (1 + confidence) / 2
    ratio = NormalDist().inv_cdf(tail) / student_quantile(tail, seeds - 1)
    of_one = rate * (1 - rate)
    if of_one == 0.0:
        return seeds * (seeds - 1) * ratio * ratio
    return of_one / columns.variance(of_one) * ratio * ratio


def _mean_rate(tallies: Sequence[Counted]) -> float:
    """The mean of the tasks' rates; exactly 0 or 1 where all are."""
    if all(successes == 0 for successes, _ in tallies):
        return 0.0
    if all(successes == n for successes, n in tallies):
        return 1.0
    return sum(sorted(successes / n for successes, n in tallies)) / len(tallies)


def _variance_of_mean(tallies: Sequence[Counted], rate: float) -> float:
    count = len(tallies)
    terms = []
    for successes, n in tallies:
        shrunk = (successes + rate) / (n + 1)
        # So that tasks which are alike give as many effective episodes as there are, on average.
        correction = 1 - (1 - 1 / count) * n / (n + 1) ** 2
        terms.append(shrunk * (1 - shrunk) / (n * correction))
    return sum(sorted(terms)) / count**2


def _score_interval(rate: float, n: float, confidence: float) -> tuple[float, float]:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    scale = 1 + z * z / n
    center = (rate + z * z / (2 * n)) / scale
    reach = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / scale
    # Both ends are exact there; the formula misses them by a rounding error.
    low = 0.0 if rate == 0.0 else center - reach
    high = 1.0 if rate == 1.0 else center + reach
    return low, high


def most_false(total: int, checked: int) -> int:
    """Return how many of `total` episodes may be false if none of a random sample is, at 95 %.

    That is the largest D for which a sample without a false one is likelier than 5 %, by the
    hypergeometric distribution: C(total - D, checked) / C(total, checked) > 1/20.
    """
    samples = comb(total, checked)
    low, high = 0, total - checked  # with more false ones the sample cannot miss them
    while low < high:
        middle = (low + high + 1) // 2
        if 20 * comb(total - middle, checked) > samples:
            low = middle
        else:
            high = middle - 1
    return low


def _student_cdf(t: float, degrees: float) -> float:
    return 1 - student_tail(t, degrees)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):  # there the fraction converges slowly
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / max(abs(1 - (a + b) * x / (a + 1)), tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front * value


Outcomes = Mapping[str, Sequence[tuple[int, int]]]
"""For each task the index and the outcome of episodes: 1 for a success; of pairs the difference."""
Groups = Mapping[str, Hashable]
"""What tasks have in common that share their seeds."""


def share_seeds(tasks: Sequence[str], groups: Groups) -> bool:
    """Whether two of these tasks have the same seeds."""
    named = [groups[task] for task in tasks if task in groups]
    return len(set(named)) < len(named)


def find_columns(outcomes: Outcomes, groups: Groups) -> Columns | None:
    """Return how the mean of the tasks' rates varies from seed to seed.

    Args:
        outcomes: Those of the tasks.
        groups: The groups of tasks that share their seeds.

    Returns:
        None if no two of the tasks share them.
    """
    played = {task: each for task, each in outcomes.items() if each}
    if not share_seeds([*played], groups):
        return None
    deviations: dict[Hashable, float] = defaultdict(float)
    for task in sorted(played):
        of_task = played[task]
        rate = sum(value for _, value in of_task) / len(of_task)
        for index, value in of_task:
            deviations[groups[task], index] += (value - rate) / (len(of_task) * len(played))
    return Columns(len(deviations), sum(sorted(each * each for each in deviations.values())))


def column_sums(outcomes: Outcomes, groups: Groups) -> list[Fraction]:
    """Return what each column adds to the mean over tasks, exactly."""
    played = {task: each for task, each in outcomes.items() if each}
    sums: dict[Hashable, Fraction] = defaultdict(Fraction)
    for task, of_task in played.items():
        for index, value in of_task:
            sums[groups[task], index] += Fraction(value, len(of_task) * len(played))
    return list(sums.values())


def column_means(outcomes: Outcomes) -> list[Fraction]:
    """Return the mean outcome of each column, for tests of its episodes as one; exactly.

    All tasks are taken to share their seeds, as at least one side of the comparison does.
    """
    sums = column_sums(outcomes, dict.fromkeys(outcomes, ""))
    return [len(sums) * each for each in sums]
