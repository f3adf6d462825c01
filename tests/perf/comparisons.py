"""How often a comparison errs: simulated pairs of runs whose true difference is known.

    python tests/perf/comparisons.py [--runs 4000] [--json]

Without a true difference, `compare` should call at most 5 % of pairs different (type I errors); the
interval of the difference should hold the true one in 95 %.
"""

import argparse
import sys

import numpy as np
from measure import report

from envhub.results.paired import Pairs, difference_interval, mcnemar

DESIGNS = [(1, 50), (5, 10), (10, 10), (10, 50), (50, 10)]
"""Tasks, and episodes per task."""
SITUATIONS = {
    "both .5": (0.25, 0.25),
    "both .9": (0.05, 0.05),
    "A .7, B .8": (0.10, 0.20),
    "A .9, B .95": (0.02, 0.07),
}
"""How likely it is that only A, and that only B, succeeds in a pair."""
LEVEL = 0.05
LEAST = 0.93


def simulate(tasks, episodes, only_a, only_b, runs, rng):
    """The shares of runs that are called different, and whose interval holds the difference."""
    called = held = 0
    chances = [only_a, only_b, 1 - only_a - only_b]
    for _ in range(runs):
        counts = rng.multinomial(episodes, chances, tasks)
        pairs = [Pairs(episodes, int(a), int(b)) for a, b, _ in counts]
        called += mcnemar(sum(p.only_a for p in pairs), sum(p.only_b for p in pairs)) <= LEVEL
        low, high = difference_interval(pairs)
        held += low <= only_b - only_a <= high
    return called / runs, held / runs


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate comparisons of two policies.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=4000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    rows, good = [], True
    for tasks, episodes in DESIGNS:
        for name, (only_a, only_b) in SITUATIONS.items():
            called, held = simulate(tasks, episodes, only_a, only_b, arguments.runs, rng)
            null = only_a == only_b
            good = good and held >= LEAST and not (null and called > LEVEL)
            rows.append(
                {
                    "tasks": tasks,
                    "episodes": episodes,
                    "truth": name,
                    "called different": called,
                    "at most": LEVEL if null else None,
                    "interval holds": held,
                    "at least": LEAST,
                }
            )
    report("Comparisons of two policies", rows, json=arguments.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
