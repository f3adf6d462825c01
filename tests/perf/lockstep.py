"""Refilled slots against a lock-step loop over AsyncVectorEnv, and against ideal list scheduling.

    python tests/perf/lockstep.py [--json] [--episodes 30]

10 ms of sleep a step, lengths N(110, 20) with 97 % success, horizon 280. Starting and ending the
processes is part of both times. The ideal gives every episode to the first free slot, and costs
nothing. The policy sets no batch, so it is called with one row at a time; beside it the same one
with batch = slots.
"""

import argparse
import heapq
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from measure import report

import envhub

FILE = Path(__file__).parent / "assets" / "sleepy" / "env.py"
SLEEPY = runpy.run_path(str(FILE))
LIMITS = {10: 1.4, 25: 1.7}
IDEAL = 1.15


class Still:
    def act(self, obs: Any, episodes: Any) -> np.ndarray:
        return np.zeros((len(episodes), 4), np.float32)


class StillBatches(Still):
    def __init__(self, batch: int) -> None:
        self.batch = batch


def lockstep(slots: int, episodes: int) -> tuple[float, list[tuple[int, bool]]]:
    """Whole batches, each until its slowest is done."""
    start = time.perf_counter()
    env = AsyncVectorEnv([SLEEPY["Sleepy"]] * slots, autoreset_mode=AutoresetMode.DISABLED)
    results: list[tuple[int, bool]] = []
    actions = np.zeros((slots, 4), np.float32)
    for batch in range(episodes):
        env.reset(seed=[batch * slots + slot for slot in range(slots)])
        steps, won = np.zeros(slots, int), np.zeros(slots, bool)
        running = np.ones(slots, bool)
        while running.any():
            _, _, terminated, truncated, _ = _step(env, actions)
            steps[running] += 1
            won |= running & terminated
            running &= ~(terminated | truncated)
        results.extend(zip(steps.tolist(), won.tolist(), strict=True))
    env.close()
    return time.perf_counter() - start, results


def _step(env: AsyncVectorEnv, actions: np.ndarray) -> Any:
    """Finished envs are stepped on, as lock-step evaluators do."""
    env._autoreset_envs = np.zeros(env.num_envs, bool)
    return env.step(actions)


def ours(slots: int, episodes: int, policy: Still) -> tuple[float, list[tuple[int, bool]]]:
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        run = envhub.evaluate(
            str(FILE), policy, episodes=slots * episodes, workers=slots, seeding="shared",
            out=f"{place}/run",
        )  # fmt: skip
        seconds = time.perf_counter() - start
        return seconds, [(record.steps, bool(record.success)) for record in run.records()]


def ideal(slots: int, lengths: list[int], step: float) -> float:
    free = [0.0] * slots
    for length in lengths:
        heapq.heappush(free, heapq.heappop(free) + length * step)
    return max(free)


def step_seconds() -> float:
    """What one step really takes, sleeping overshoot included."""
    env = SLEEPY["Sleepy"]()
    env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(100):
        env.step(np.zeros(4, np.float32))
    return (time.perf_counter() - start) / 100


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--episodes", type=int, default=30, help="for each slot")
    options = parser.parse_args()
    rows, good = [], True
    for slots, limit in LIMITS.items():
        slow, expected = lockstep(slots, options.episodes)
        fast, found = ours(slots, options.episodes, Still())
        batched, _ = ours(slots, options.episodes, StillBatches(slots))
        best = ideal(slots, [steps for steps, _ in expected], step_seconds())
        same = found == expected
        good = good and same and slow / fast >= limit and fast / best <= IDEAL
        rows.append(
            {
                "slots": slots,
                "lock-step s": round(slow, 2),
                "EnvHub s": round(fast, 2),
                "with batch s": round(batched, 2),
                "ideal s": round(best, 2),
                "faster": round(slow / fast, 2),
                "at least": limit,
                "over ideal": round(fast / best, 3),
                "at most": IDEAL,
                "records equal": same,
            }
        )
    report("Lock-step against refilled slots", rows, json=options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
