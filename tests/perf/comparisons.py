"""How often a comparison errs: simulated pairs of runs whose true difference is known.

    python tests/perf/comparisons.py [--runs 4000] [--json]

Without a true difference, `compare` should call at most 5 % of pairs different (type I errors); the
interval of the difference should hold the true one in 95 %. If B is worse by exactly a margin,
"not worse by more than it" should be said of at most 5 % of pairs. Runs that are not paired, with
unequal numbers of episodes and equal rates, should be called different in at most 5.5 %.
"""

import argparse
import sys

import numpy as np
from measure import report

from envhub.results.paired import Pairs, difference_interval, exact_conditional, mcnemar

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
MARGINS = (0.01, 0.02, 0.05, 0.10)
MARGIN_DESIGNS = [(10, 10), (10, 50), (50, 10)]
EXTRA = (0.0, 0.02, 0.10)
"""How often the two differ beyond the margin: only B succeeds in so many pairs."""
UNEQUAL = {
    "one task": [(50, 20, 0.9)],
    "easy and hard, turned round": [(100, 10, 0.9), (10, 100, 0.1)],
    "ten tasks": [
        (50, 10, 0.05 + 0.1 * i) if i % 2 else (10, 50, 0.05 + 0.1 * i) for i in range(10)
    ],
}
"""Episodes of A, of B, and the rate of both, for each task."""
LEVEL_UNPAIRED = 0.055


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


def not_worse_falsely(tasks, episodes, margin, extra, runs, rng):
    """The share of runs said not to be worse by more than a margin by which B is just worse."""
    chances = [margin + extra, extra, 1 - margin - 2 * extra]
    said = 0
    for _ in range(runs):
        counts = rng.multinomial(episodes, chances, tasks)
        pairs = [Pairs(episodes, int(a), int(b)) for a, b, _ in counts]
        said += difference_interval(pairs)[0] >= -margin
    return said / runs


def called_different_unpaired(design, runs, rng):
    """The share of independent runs with equal rates that are called different."""
    called = 0
    for _ in range(runs):
        a = [(int(rng.binomial(n_a, rate)), n_a) for n_a, _, rate in design]
        b = [(int(rng.binomial(n_b, rate)), n_b) for _, n_b, rate in design]
        called += exact_conditional(a, b).p <= LEVEL
    return called / runs


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
    rows = []
    for tasks, episodes in MARGIN_DESIGNS:
        for margin in MARGINS:
            for extra in EXTRA:
                said = not_worse_falsely(tasks, episodes, margin, extra, arguments.runs, rng)
                good = good and said <= LEVEL
                rows.append(
                    {
                        "tasks": tasks,
                        "episodes": episodes,
                        "margin": margin,
                        "only B": extra,
                        "said not worse": said,
                        "at most": LEVEL,
                    }
                )
    report("Not worse by more than a margin, said falsely", rows, json=arguments.json)
    rows = []
    for name, design in UNEQUAL.items():
        called = called_different_unpaired(design, arguments.runs, rng)
        good = good and called <= LEVEL_UNPAIRED
        rows.append({"design": name, "called different": called, "at most": LEVEL_UNPAIRED})
    report("Equal runs that are not paired", rows, json=arguments.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
