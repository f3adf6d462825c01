"""Chunks of ten actions, on two workers, against two bare processes that draw each tenth step.

python tests/perf/chunks.py [--json] [--episodes 60] [--rounds 3]
"""

import argparse
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import alternate, report

import envhub

FILE = Path(__file__).parent / "assets" / "burning" / "env.py"
LIMIT = 1.10


class Tens:
    def act(self, obs: Any, episodes: Any) -> np.ndarray:
        return np.zeros((len(episodes), 10, 4), np.float32)


def bare(episodes: int) -> None:
    """What one process has to do at the least."""
    env = runpy.run_path(str(FILE))["Burning"]()
    action = np.zeros(4, np.float32)
    for seed in range(episodes):
        env.observing = frozenset({"pixels"})
        env.reset(seed=seed)
        for step in range(1, 201):
            env.observing = frozenset({"pixels"} if step % 10 == 0 and step < 200 else ())
            env.step(action)


def two_processes(episodes: int) -> float:
    start = [sys.executable, __file__, "--bare", str(episodes // 2)]
    begin = time.perf_counter()
    children = [subprocess.Popen(start) for _ in "ab"]
    for child in children:
        child.wait()
    return time.perf_counter() - begin


def ours(episodes: int) -> float:
    with tempfile.TemporaryDirectory() as place:
        begin = time.perf_counter()
        envhub.evaluate(str(FILE), Tens(), episodes=episodes, workers=2, out=f"{place}/run")
        return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", type=int)
    options = parser.parse_args()
    if options.bare is not None:
        bare(options.bare)
        return 0
    cases = {
        "bare": lambda: two_processes(options.episodes),
        "EnvHub": lambda: ours(options.episodes),
    }
    seconds = {name: median(v) for name, v in alternate(cases, options.rounds).items()}
    ratio = seconds["EnvHub"] / seconds["bare"]
    row = {
        "bare s": round(seconds["bare"], 2),
        "EnvHub s": round(seconds["EnvHub"], 2),
        "ratio": round(ratio, 3),
        "at most": LIMIT,
    }
    report("Chunks of 10: 1 ms of physics, 10 ms of drawing, 2 workers", [row], json=options.json)
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
