"""How often intervals cover the truth: simulated runs of tasks whose true rates are known.

    python tests/perf/intervals.py [--runs 8000] [--json]

The interval of suites and overall should hold the mean of these tasks' true rates in 95 % of runs;
the second pair, the mean of the population that the tasks were drawn from. Where tasks share their
seeds (`--seeding shared`), episodes of one seed have some of their luck in common: the outcome is
a success if a normal number is below a threshold, and a share of its variance belongs to the seed.

All runs of a cell are computed at once; a sample of them is compared with EnvHub's own functions.
"""

import argparse
import sys

import numpy as np
from measure import report
from scipy.special import ndtri
from scipy.stats import t as student

from envhub.results.statistics import find_columns, stratified, tasks_like_these

DESIGNS = [(1, 50), (3, 20), (10, 5), (10, 10), (10, 50), (50, 10), (40, 50), (130, 50)]
"""Tasks, and episodes per task."""
LEAST = 0.915
SMALL = 50
"""With as few episodes in all, Wilson's own interval covers 91.06 % where all rates are .99."""
MEAN = 0.95
SHARED_DESIGNS = [(10, 10), (10, 50), (50, 10), (130, 10)]
LUCK = (0.0, 0.2, 0.5)
"""The share of the variance that the episodes of a seed have in common."""
LEAST_SHARED = 0.93
COMPARED = 20
"""Runs of each cell for which EnvHub's functions are asked, too."""
Z = float(ndtri(0.975))


def drawn(a, b):
    return lambda runs, tasks, rng: (rng.beta(a, b, (runs, tasks)), a / (a + b))


def fixed(rates):
    return lambda runs, tasks, rng: (np.broadcast_to(rates(tasks), (runs, tasks)), None)


SITUATIONS = {
    "all .99": fixed(lambda tasks: np.full(tasks, 0.99)),
    "all .95": fixed(lambda tasks: np.full(tasks, 0.95)),
    "all .9": fixed(lambda tasks: np.full(tasks, 0.9)),
    "all .5": fixed(lambda tasks: np.full(tasks, 0.5)),
    "Beta(49.5, .5)": drawn(49.5, 0.5),
    "Beta(19, 1)": drawn(19, 1),
    "Beta(4.5, .5)": drawn(4.5, 0.5),
    "Beta(1.2, .8)": drawn(1.2, 0.8),
    "Beta(1, 1)": drawn(1, 1),
    "one .3, others .99": fixed(lambda tasks: np.where(np.arange(tasks) == 0, 0.3, 0.99)),
    "half .97, half .03": fixed(lambda tasks: np.where(np.arange(tasks) % 2, 0.03, 0.97)),
    "half 1, half .5": fixed(lambda tasks: np.where(np.arange(tasks) % 2, 0.5, 1.0)),
    ".1 to .9": fixed(lambda tasks: np.linspace(0.1, 0.9, tasks)),
}


def score(rate, m):
    """Wilson's interval, for arrays."""
    scale = 1 + Z * Z / m
    center = (rate + Z * Z / (2 * m)) / scale
    reach = Z * np.sqrt(rate * (1 - rate) / m + Z * Z / (4 * m * m)) / scale
    return np.where(rate == 0, 0.0, center - reach), np.where(rate == 1, 1.0, center + reach)


def sizes(won, episodes):
    """The rate of each run and the episodes of a pool that tell as much, of equal tasks."""
    tasks = won.shape[1]
    rate = won.sum(axis=1) / (episodes * tasks)
    shrunk = (won + rate[:, None]) / (episodes + 1)
    correction = 1 - (1 - 1 / tasks) * episodes / (episodes + 1) ** 2
    variance = (shrunk * (1 - shrunk)).sum(axis=1) / (episodes * correction * tasks**2)
    of_one = rate * (1 - rate)
    return rate, np.where(of_one == 0, episodes * tasks, of_one / np.maximum(variance, 1e-300))


def size_alike(won, episodes, rate, m):
    """The same for tasks like these."""
    tasks = won.shape[1]
    spread = (won / episodes).var(axis=1, ddof=1) / tasks
    ratio = student.ppf(0.975, tasks * episodes - 1) / student.ppf(0.975, tasks - 1)
    alike = rate * (1 - rate) / np.maximum(spread, 1e-300) * ratio**2
    return np.minimum(m, np.where(spread == 0, np.inf, alike))


def size_shared(outcomes, rate, m):
    """The same where tasks share their seeds."""
    seeds = outcomes.shape[2]
    ratio = (Z / student.ppf(0.975, seeds - 1)) ** 2
    of_one = rate * (1 - rate)
    spread = ((outcomes.mean(axis=1) - rate[:, None]) ** 2).sum(axis=1)
    clustered = of_one / np.maximum(spread + of_one, 1e-300)
    return np.minimum(m, np.where(of_one == 0, 1, clustered) * seeds * (seeds - 1) * ratio)


def simulate(tasks, episodes, situation, runs, rng):
    """The share of runs whose intervals cover the truth: these tasks, tasks like these; width."""
    rates, population = situation(runs, tasks, rng)
    won = rng.binomial(episodes, rates)
    rate, m = sizes(won, episodes)
    low, high = score(rate, m)
    truth = rates.mean(axis=1)
    alike = None
    if population is not None and tasks >= 5:
        low_alike, high_alike = score(rate, size_alike(won, episodes, rate, m))
        alike = float(((low_alike <= population) & (population <= high_alike)).mean())
    for run in range(COMPARED):
        tallies = [(int(k), episodes) for k in won[run]]
        own = stratified(tallies)
        assert np.allclose((own.low, own.high), (low[run], high[run]), atol=1e-9)
        if alike is not None:
            own = tasks_like_these(tallies)
            assert np.allclose((own.low, own.high), (low_alike[run], high_alike[run]), atol=1e-9)
    return float(((low <= truth) & (truth <= high)).mean()), alike, float((high - low).mean())


def simulate_shared(tasks, episodes, luck, situation, runs, rng):
    """The same where episodes of one seed have some of their luck in common."""
    held, width, left = 0, 0.0, runs
    while left:
        some = min(left, max(COMPARED, 2_000_000 // (tasks * episodes)))
        rates, _ = situation(some, tasks, rng)
        seeds = rng.standard_normal((some, 1, episodes), np.float32)
        own = rng.standard_normal((some, tasks, episodes), np.float32)
        numbers = np.float32(luck**0.5) * seeds + np.float32((1 - luck) ** 0.5) * own
        outcomes = numbers < ndtri(rates)[:, :, None].astype(np.float32)
        won = outcomes.sum(axis=2)
        rate, m = sizes(won, episodes)
        low, high = score(rate, size_shared(outcomes, rate, m))
        truth = rates.mean(axis=1)
        held += int(((low <= truth) & (truth <= high)).sum())
        width += float((high - low).sum())
        for run in range(COMPARED if left == runs else 0):
            by_task = {
                str(t): list(enumerate(map(int, row))) for t, row in enumerate(outcomes[run])
            }
            columns = find_columns(by_task, dict.fromkeys(by_task, ""))
            mine = stratified([(int(k), episodes) for k in won[run]], columns=columns)
            assert np.allclose((mine.low, mine.high), (low[run], high[run]), atol=1e-9)
        left -= some
    return held / runs, None, width / runs


def summed_up(design, results, least):
    covered, widths = [r[0] for r in results], [r[2] for r in results]
    alike = [r[1] for r in results if r[1] is not None]
    return {
        "design": design,
        "least": min(covered),
        "at least": least,
        "where": list(SITUATIONS)[int(np.argmin(covered))],
        "mean": float(np.mean(covered)),
        "width": float(np.mean(widths)),
        "tasks like these": float(np.mean(alike)) if alike else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    for tasks, episodes in DESIGNS:
        results = [
            simulate(tasks, episodes, situation, asked.runs, rng)
            for situation in SITUATIONS.values()
        ]
        least = LEAST if tasks * episodes > SMALL else None
        rows.append(summed_up(f"{tasks}x{episodes}", results, least))
    report("Coverage of 95 % intervals", rows, json=asked.json)
    mean = float(np.mean([row["mean"] for row in rows]))
    print(f"  mean of all {mean:.4f}, at least {MEAN}: {mean >= MEAN}")
    shared = []
    for tasks, episodes in SHARED_DESIGNS:
        for luck in LUCK:
            results = [
                simulate_shared(tasks, episodes, luck, situation, asked.runs, rng)
                for situation in SITUATIONS.values()
            ]
            design = f"{tasks}x{episodes}, luck in common {luck}"
            shared.append(summed_up(design, results, LEAST_SHARED))
    report("The same with --seeding shared", shared, json=asked.json)
    wrong = [r for r in (*rows, *shared) if r["at least"] and r["least"] < r["at least"]]
    sys.exit(1 if wrong or mean < MEAN else 0)


if __name__ == "__main__":
    main()
