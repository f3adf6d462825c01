"""Whether 10,000 episodes cost ten times what 1,000 do, and how much memory the host takes.

Runs are written to memory where that is possible: on a disk, a new file may take longer than an
episode of five steps, and another time in each directory.

python tests/perf/scale.py [--json] [--rounds 3]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measure import alternate, report

import envhub

FILE = Path(__file__).parent / "assets" / "many" / "env.py"
LIMIT_TIME = 1.10
LIMIT_MB = 20.0
MEMORY = Path("/dev/shm")


def resident_mb() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def measure(episodes: int, tasks: int) -> dict[str, float]:
    """In a process of its own: milliseconds an episode, and growth of the host."""
    names = tuple(f"task-{n}" for n in range(tasks))
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as place:
        common = {"tasks": names, "workers": 2}
        envhub.evaluate(str(FILE), episodes=1, out=f"{place}/warm", **common)
        before, begin = resident_mb(), time.perf_counter()
        envhub.evaluate(str(FILE), episodes=episodes // tasks, out=f"{place}/run", **common)
        seconds, growth = time.perf_counter() - begin, resident_mb() - before
    return {"ms": 1000 * seconds / episodes, "mb": growth}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=int, nargs=2)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return 0

    growth: dict[str, float] = {}

    def case(episodes: int, tasks: int) -> float:
        start = [sys.executable, __file__, "--one", str(episodes), str(tasks)]
        found = json.loads(subprocess.run(start, capture_output=True, check=True).stdout)
        growth[f"{episodes}/{tasks}"] = found["mb"]
        return float(found["ms"])

    sizes = [(episodes, tasks) for tasks in (1, 100) for episodes in (1000, 10000)]
    cases = {f"{e}/{t}": (lambda e=e, t=t: case(e, t)) for e, t in sizes}
    times = {name: median(values) for name, values in alternate(cases, options.rounds).items()}
    rows = [
        {
            "tasks": tasks,
            "episodes": episodes,
            "ms an episode": round(times[f"{episodes}/{tasks}"], 3),
            "of 1,000's": round(times[f"{episodes}/{tasks}"] / times[f"1000/{tasks}"], 3),
            "at most": LIMIT_TIME,
            "host grew MB": round(growth[f"{episodes}/{tasks}"], 1),
            "below MB": LIMIT_MB,
        }
        for episodes, tasks in sizes
    ]
    report("Scale: two workers, episodes of 5 steps", rows, json=options.json)
    good = all(r["of 1,000's"] <= LIMIT_TIME and r["host grew MB"] < LIMIT_MB for r in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
