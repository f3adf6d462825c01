"""What the live page costs a run that records about a thousand episodes a minute.

The same run is played with `--watch`, and a reader of its page, and without, in turns. The time is
that from the first recorded episode to the last one.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from statistics import median

from measure import alternate, report

WALK = Path(__file__).parents[1] / "assets" / "run_walk"
EPISODES, PAUSE = 400, 0.005


def play(*more: str) -> float:
    """Play the run; returns the seconds from its first record to its last."""
    with tempfile.TemporaryDirectory() as place:
        words = ["eval", str(WALK), "--policy", "zero", "--task", "far", "--workers", "2"]
        words += ["--episodes", str(EPISODES), "--env-arg", f"pause={PAUSE}", "--quiet"]
        command = subprocess.Popen(
            [sys.executable, "-m", "envhub", *words, "--out", f"{place}/run", *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stderr is not None
        if more and (found := re.search(r"http://\S+/", command.stderr.readline())):
            threading.Thread(target=read, args=(found[0],), daemon=True).start()
        command.wait()
        first = min(path.stat().st_mtime for path in Path(place, "run", "actions").iterdir())
        return Path(place, "run", "episodes.jsonl").stat().st_mtime - first


def read(address: str) -> None:
    """Read all events."""
    with urllib.request.urlopen(f"{address}events") as events:
        for _ in events:
            continue


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cases = {"alone": play, "with the page": lambda: play("--watch")}
    measured = alternate(cases, options.rounds)
    alone = median(measured["alone"])
    rows = [
        {
            "what": name,
            "seconds": median(seconds),
            "episodes per minute": round(60 * EPISODES / median(seconds)),
            "of alone": median(seconds) / alone,
        }
        for name, seconds in measured.items()
    ]
    report("A run of 400 episodes, alone and watched", rows, json=options.json)


if __name__ == "__main__":
    main()
