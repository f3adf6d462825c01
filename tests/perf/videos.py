"""What `report --videos some` costs beyond drawing the frames.

    python tests/perf/videos.py [--json]

Ten tasks of Meta-World, one episode each, every tenth step drawn, one worker: against a bare loop,
in a process of its own, that makes the same envs, takes the same steps and draws the same frames.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import report

import envhub
from envhub.api import _Callbacks
from envhub.evaluation.rerun import RerunOptions
from envhub.evaluation.videos import draw_videos
from envhub.results.videos import choose_episodes

EVERY = 10
_MOST = 1.2

BARE = """
import sys, time
import numpy as np
from envhub import open_run
from envhub_metaworld.env import make
from envhub_metaworld.tasks import suites
run, every = open_run(sys.argv[1]), int(sys.argv[2])
tasks = {task.name: task for task in suites()["mt50"]}
began = time.monotonic()
for record in run.records():
    env = make(tasks[record.task])
    env.observing = frozenset()
    env.reset(seed=record.seed)
    env.render()
    actions = np.load(run.directory / "actions" / f"{record.number}.npy")
    for number, action in enumerate(actions, 1):
        env.step(action)
        if number % every == 0 or number == len(actions):
            env.render()
    env.close()
print(time.monotonic() - began)
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as place:
        run = envhub.evaluate(
            "metaworld", "expert", suites="mt10", episodes=1, runtime="here", out=Path(place, "run")
        )
        command = [sys.executable, "-c", BARE, str(run.directory), str(EVERY)]
        bare = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        began = time.monotonic()
        rerun_options = RerunOptions("report", workers=1)
        undrawn = draw_videos(
            run, choose_episodes(run, "all"), rerun_options, _Callbacks(), every=EVERY
        )
        ours = time.monotonic() - began
    row = {"videos": 10 - len(undrawn), "bare loop": bare, "EnvHub": ours, "ratio": ours / bare}
    report("Seconds for ten videos", [row], json=json)
    return 0 if not undrawn and ours / bare <= _MOST else 1


if __name__ == "__main__":
    sys.exit(main())
