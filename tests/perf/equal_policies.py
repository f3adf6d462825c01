"""Sixty real comparisons of two policies that are equally good, on the example benchmark.

    python tests/perf/equal_policies.py [--workers 0] [--seeding task] [--json]

Both steer to the goal, and stand still where it lies in a quarter of the directions: each in
another one, so each succeeds in 75 %. They play five tasks ten times, with the seeds 0 to 59 of a
run. At most 7 of the 60 comparisons should be decided, and the overall interval of a run should
hold 75 % in at least 53. When all tasks shared their seeds unnoticed, 20 were decided, and it held
in 38.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import report

import envhub

REACH = Path(__file__).parents[2] / "docs" / "examples" / "reach"
RUNS = 60
EPISODES = 10
STEPS = 25
"""Enough for the farthest goal."""
TRUE_RATE = 0.75
MOST_DECIDED, LEAST_HELD = 7, 53


class Steer:
    """Steers to the goal, unless that lies in its bad quarter."""

    needs = frozenset({"agent_pos", "environment_state"})
    batch = "any"

    def __init__(self, quarter: int) -> None:
        self._quarter = quarter

    def act(self, obs: Mapping[str, np.ndarray], episodes: Sequence[Any]) -> np.ndarray:
        goal = obs["environment_state"]
        angle = np.arctan2(goal[:, 1], goal[:, 0]) % (2 * np.pi)
        stands = angle // (np.pi / 2) == self._quarter
        moves = np.clip(20.0 * (goal - obs["agent_pos"]), -1.0, 1.0)
        return np.where(stands[:, None], 0.0, moves).astype(np.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two equal policies sixty times.")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seeding", choices=("task", "shared"), default="task")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    decided, held, rates = 0, [0, 0], []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(RUNS):
            runs = [
                envhub.evaluate(
                    REACH, Steer(quarter), suites="all", episodes=EPISODES, seed=seed,
                    seeding=asked.seeding, max_steps=STEPS, workers=asked.workers,
                    out=f"{place}/{seed}-{quarter}",
                )
                for quarter in (0, 1)
            ]  # fmt: skip
            decided += envhub.compare(*runs).verdict != "undecided"
            for side, run in enumerate(runs):
                overall = run.summary().overall
                held[side] += overall.ci_low <= TRUE_RATE <= overall.ci_high
                rates.append(overall.rate)
    rows = [
        {"what": "comparisons decided", "found": decided, "limit": f"at most {MOST_DECIDED}"},
        {
            "what": "intervals of A that hold 75 %",
            "found": held[0],
            "limit": f"at least {LEAST_HELD}",
        },
        {
            "what": "intervals of B that hold 75 %",
            "found": held[1],
            "limit": f"at least {LEAST_HELD}",
        },
        {"what": "mean rate of all runs", "found": float(np.mean(rates)), "limit": "0.75"},
    ]
    report(f"{RUNS} comparisons of equal policies, seeding {asked.seeding}", rows, json=asked.json)
    return 0 if decided <= MOST_DECIDED and min(held) >= LEAST_HELD else 1


if __name__ == "__main__":
    sys.exit(main())
