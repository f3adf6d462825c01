"""How long it takes to start a process in a sandbox, beside one without. Printed, not judged.

Run as `python tests/perf/sandbox.py [--json] [--rounds N]`. A sandbox that does not work here is
left out.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from measure import alternate, report

from envhub.sandbox import filesystem
from envhub.sandbox.bubblewrap import wrap
from envhub.sandbox.choose import why_unavailable

TESTS = Path(__file__).parents[1]
IDLE = [sys.executable, "-S", "-c", ""]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a sandbox costs.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envhub-perf-") as directory:
        measured = alternate(cases(Path(directory)), arguments.rounds)
    rows = [{"case": name, "median_ms": 1000 * median(runs)} for name, runs in measured.items()]
    report(f"Sandboxes, median of {arguments.rounds} alternating runs", rows, json=arguments.json)
    return 0


def cases(directory: Path) -> dict[str, Callable[[], float]]:
    sys.path.append(str(TESTS))
    from support.sandboxes import make_sandbox

    found: dict[str, Callable[[], float]] = {"start Python": partial(seconds, IDLE)}
    for kind in ("bubblewrap", "landlock"):
        if why_unavailable(kind) is None:
            place = directory / kind
            place.mkdir()
            sandbox = make_sandbox(kind, "me", place)
            found[f"confine a process, {kind}"] = partial(sandbox.run, "result = seconds")
            if kind == "bubblewrap":
                readable = filesystem.interpreter_paths()
                inside = wrap(IDLE, scratch=sandbox.scratch, readable=readable, network=False)
                found["start Python in bubblewrap"] = partial(seconds, inside)
    return found


def seconds(argv: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
