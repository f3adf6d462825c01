"""What a stored source adds to a run, and what the sandbox adds to a worker.

    python tests/perf/hub.py [--json] [--rounds 30] [--runs 40] [--crews 10]

The same benchmark evaluated from its directory and by a pinned reference whose files are stored
already, without a sandbox and in one, as whole commands. Then runs in this process, which spares
the imports whose times differ most: with one worker, two and eight.
"""

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from measure import alternate, report

import envhub
from envhub.options import SandboxKind
from envhub.testing import LocalHub

REACH = Path(__file__).parent.parent.parent / "docs" / "examples" / "reach"
PACKAGE = Path(envhub.__file__).parent
LIMIT_SOURCE = 0.3
LIMIT_SANDBOX = 0.05


def evaluate(place: Path, *arguments: str) -> float:
    out = tempfile.mkdtemp(dir=place)
    command = [sys.executable, "-c", "from envhub.cli import main; main()", "eval", *arguments]
    common = ["--episodes", "1", "--task", "reach-red", "--workers", "1", "--quiet", "--out"]
    begin = time.perf_counter()
    subprocess.run([*command, *common, f"{out}/run"], check=True, capture_output=True)
    return time.perf_counter() - begin


def evaluate_here(place: Path, ref: str, sandbox: SandboxKind, workers: int) -> float:
    out = Path(tempfile.mkdtemp(dir=place), "run")
    begin = time.perf_counter()
    envhub.evaluate(
        ref,
        tasks=["reach-red"],
        episodes=workers,
        workers=workers,
        trust_remote_code=True,
        sandbox=sandbox,
        out=out,
    )
    return time.perf_counter() - begin


def added(seconds: dict[str, list[float]], name: str, to: str) -> float:
    """What one takes more than another in the same round, since this machine's speed changes.

    The median of the means of all pairs (Hodges and Lehmann): outliers move it as little as a plain
    median, noise moves it less.
    """
    more = [a - b for a, b in zip(seconds[name], seconds[to], strict=True)]
    return median((a + b) / 2 for i, a in enumerate(more) for b in more[i:])


def sandbox_adds(place: Path, ref: str, workers: int, rounds: int) -> float:
    """What it adds to a run in this process, a worker."""
    cases = {
        kind: partial(evaluate_here, place, ref, kind, workers) for kind in ("none", "bubblewrap")
    }
    return added(alternate(cases, rounds), "bubblewrap", "none") / workers


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--crews", type=int, default=10)
    options = parser.parse_args()
    compileall.compile_dir(PACKAGE, quiet=1)  # as pip does; workers do not
    with tempfile.TemporaryDirectory() as text, LocalHub(Path(text) / "hub") as hub:
        place = Path(text)
        os.environ |= {"HF_ENDPOINT": hub.endpoint, "ENVHUB_HOME": str(place / "home")}
        hub.create("me/reach")
        commit = hub.commit("me/reach", {p.name: p.read_bytes() for p in REACH.glob("*.py")})
        ref = f"me/reach@{commit}"
        stored = partial(evaluate, place, ref, "--trust-remote-code", "--sandbox")
        cases = {
            "directory": lambda: evaluate(place, str(REACH)),
            "stored": lambda: stored("none"),
            "sandboxed": lambda: stored("bubblewrap"),
        }
        seconds = alternate(cases, options.rounds)
        source = added(seconds, "stored", "directory")
        adds = {
            "to a command": added(seconds, "sandboxed", "stored"),
            "to a run of one worker": sandbox_adds(place, ref, 1, options.runs),
            "to each of two workers": sandbox_adds(place, ref, 2, options.runs // 2),
            "to each of eight workers": sandbox_adds(place, ref, 8, options.crews),
        }
    rows = [
        {"what": "a stored source, to a command", "adds s": source, "below": LIMIT_SOURCE},
        *(
            {"what": f"the sandbox, {to}", "adds s": seconds, "below": LIMIT_SANDBOX}
            for to, seconds in adds.items()
        ),
    ]
    plain = median(seconds["directory"])
    report(f"Hub sources; from a directory {plain:.2f} s", rows, json=options.json)
    return 0 if source < LIMIT_SOURCE and max(adds.values()) < LIMIT_SANDBOX else 1


if __name__ == "__main__":
    sys.exit(main())
