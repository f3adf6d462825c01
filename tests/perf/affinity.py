"""How many envs are made for 20 and 50 tasks x 10 episodes on 2 and 5 workers.

python tests/perf/affinity.py [--json]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from measure import report

from envhub.cli.progress import Watcher
from envhub.evaluation.run import EvalRequest, start_run

FILE = Path(__file__).parent / "assets" / "many" / "env.py"


def opened(tasks: int, workers: int) -> int:
    names = tuple(f"task-{n}" for n in range(tasks))
    watcher = Watcher(quiet=True)
    with tempfile.TemporaryDirectory() as place:
        question = EvalRequest(
            str(FILE), tasks=names, episodes=10, workers=workers, out=Path(place) / "run"
        )
        start_run(question, watcher)
    watcher.finish()
    return watcher.engine.progress.opened


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        {
            "tasks": tasks,
            "workers": workers,
            "envs made": opened(tasks, workers),
            "at most": tasks + workers,
        }
        for tasks in (20, 50)
        for workers in (2, 5)
    ]
    report("Task affinity, 10 episodes a task", rows, json=options.json)
    return 0 if all(row["envs made"] <= row["at most"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
