"""An experiment against the ideal schedule, and against a shell loop over the same runs.

Two policies, two benchmarks and three seeds on two workers. The env sleeps, so that what is
measured is the schedule: the ideal is the sum of all sleeping, divided by the workers. Each cell
has three episodes, of which two workers play two and then one: a loop over single runs waits for
each cell's last one. It pays the start of a host and of workers for each cell, too, as shells do.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import report

WALK = Path(__file__).parents[1] / "assets" / "run_walk"
EPISODES, STEPS, WORKERS = 3, 20, 2

FILE = """
seeds = [0, 1, 2]
[options]
episodes = {episodes}
[policies]
zero = "zero"
still = "zero"
[benchmarks.one]
ref = "{walk}"
tasks = ["far"]
env_args = {{ pause = {pause} }}
[benchmarks.other]
ref = "{walk}"
tasks = ["far"]
env_args = {{ pause = {pause}, silent = true }}
"""


def seconds(*commands: list[str]) -> float:
    """Run commands one after another."""
    began = time.monotonic()
    for command in commands:
        subprocess.run(
            [sys.executable, "-m", "envhub", *command], check=True, stdout=subprocess.DEVNULL
        )
    return time.monotonic() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds per step")
    parser.add_argument("--no-loop", action="store_true", help="only the experiment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "experiment.toml")
        file.write_text(FILE.format(episodes=EPISODES, walk=WALK, pause=options.pause))
        workers = ["--workers", str(WORKERS), "--quiet"]
        words = ["eval", str(WALK), "--task", "far", "--episodes", str(EPISODES)]
        words += ["--policy", "zero", "--env-arg", f"pause={options.pause}", *workers]
        loop = [
            [
                *words,
                "--seed",
                str(seed),
                *silent,
                "--out",
                f"{place}/{policy}-{len(silent)}-{seed}",
            ]
            for silent in ([], ["--env-arg", "silent=true"])
            for policy in ("zero", "still")
            for seed in range(3)
        ]
        ideal = len(loop) * EPISODES * STEPS * options.pause / WORKERS
        whole = seconds(["eval", str(file), "--out", f"{place}/out", *workers])
        single = None if options.no_loop else seconds(*loop)
    rows = [
        {"what": "ideal schedule", "seconds": ideal, "of the ideal": 1.0},
        {"what": "envhub eval experiment.toml", "seconds": whole, "of the ideal": whole / ideal},
    ]
    if single is not None:
        of_ideal = single / ideal
        rows.append(
            {"what": "a loop over single runs", "seconds": single, "of the ideal": of_ideal}
        )
    report("12 uneven cells on two workers, envs that sleep", rows, json=options.json)
    if single is not None:
        print(f"The experiment is {single / whole:.2f} times as fast as the loop.", file=sys.stderr)


if __name__ == "__main__":
    main()
