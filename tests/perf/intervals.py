"""How often intervals cover the truth: simulated runs of tasks whose true rates are known.

    python tests/perf/intervals.py [--runs 8000] [--json]

The interval of suites and overall should hold the mean of these tasks' true rates in 95 % of runs;
the second pair, the mean of the population that the tasks were drawn from.
"""

import argparse
import sys

import numpy as np
from measure import report

from envhub.results.statistics import stratified, tasks_like_these

DESIGNS = [(1, 50), (3, 20), (10, 5), (10, 10), (10, 50), (50, 10), (40, 50), (130, 50)]
"""Tasks, and episodes per task."""
LEAST = 0.91
"""Wilson's own weakness near 100 %, with few episodes."""


def drawn(a, b):
    return lambda tasks, rng: (rng.beta(a, b, tasks), a / (a + b))


def fixed(rates):
    return lambda tasks, rng: (rates(tasks), None)


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


def simulate(tasks, episodes, situation, runs, rng):
    """The share of runs whose intervals cover the truth: these tasks, tasks like these; width."""
    held = alike_held = alike_asked = 0
    width = 0.0
    for _ in range(runs):
        rates, population = situation(tasks, rng)
        tallies = [(int(k), episodes) for k in rng.binomial(episodes, rates)]
        interval = stratified(tallies)
        held += interval.low <= rates.mean() <= interval.high
        width += interval.high - interval.low
        alike = tasks_like_these(tallies) if population is not None else None
        if alike is not None:
            alike_asked += 1
            alike_held += alike.low <= population <= alike.high
    return held / runs, alike_held / alike_asked if alike_asked else None, width / runs


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
        covered, widths = [r[0] for r in results], [r[2] for r in results]
        alike = [r[1] for r in results if r[1] is not None]
        worst = list(SITUATIONS)[int(np.argmin(covered))]
        rows.append(
            {
                "design": f"{tasks}x{episodes}",
                "least": min(covered),
                "at least": LEAST if (tasks, episodes) != (1, 50) else None,
                "where": worst,
                "mean": float(np.mean(covered)),
                "width": float(np.mean(widths)),
                "tasks like these": float(np.mean(alike)) if alike else None,
            }
        )
    report("Coverage of 95 % intervals", rows, json=asked.json)
    mean = float(np.mean([row["mean"] for row in rows]))
    print(f"  mean of all {mean:.3f}, within 0.02 of 0.95: {abs(mean - 0.95) <= 0.02}")
    wrong = [row["design"] for row in rows if row["at least"] and row["least"] < row["at least"]]
    sys.exit(1 if wrong or abs(mean - 0.95) > 0.02 else 0)


if __name__ == "__main__":
    main()
