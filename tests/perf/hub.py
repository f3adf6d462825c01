"""What a stored source adds to a run, and what the sandbox adds to a worker.

    python tests/perf/hub.py [--json] [--rounds 15] [--starts 60]

The same benchmark evaluated from its directory, and by a pinned reference whose files are stored
already: first without a sandbox, then in one. One worker, one episode, whole commands. Then workers
alone, from their start until they have loaded the benchmark, which this machine's pauses disturb
less.
"""

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measure import alternate, report

import envhub
from envhub.references import find_source
from envhub.testing import LocalHub
from envhub.types import Limits, Source, SourceOptions
from envhub.worker.board import close_workers
from envhub.worker.first import Wanted, start_first

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


def start_worker(source: Source) -> float:
    begin = time.perf_counter()
    first, _, _ = start_first(Wanted(source, {}, Limits()))
    seconds = time.perf_counter() - begin
    close_workers([first.worker], limit=5.0)
    return seconds


def added(seconds: dict[str, list[float]], name: str, to: str) -> float:
    """What one takes more than another, in the same round: this machine's speed changes."""
    return median(more - less for more, less in zip(seconds[name], seconds[to], strict=True))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--starts", type=int, default=60)
    options = parser.parse_args()
    compileall.compile_dir(PACKAGE, quiet=1)  # as pip does; workers do not
    with tempfile.TemporaryDirectory() as text, LocalHub(Path(text) / "hub") as hub:
        place = Path(text)
        os.environ |= {"HF_ENDPOINT": hub.endpoint, "ENVHUB_HOME": str(place / "home")}
        hub.create("me/reach")
        commit = hub.commit("me/reach", {p.name: p.read_bytes() for p in REACH.glob("*.py")})
        ref = (f"me/reach@{commit}", "--trust-remote-code")
        cases = {
            "directory": lambda: evaluate(place, str(REACH)),
            "stored": lambda: evaluate(place, *ref, "--sandbox", "none"),
            "sandboxed": lambda: evaluate(place, *ref),
        }
        seconds = alternate(cases, options.rounds)
        free, kept = (
            find_source(ref[0], SourceOptions(trust_remote_code=True, sandbox=kind))
            for kind in ("none", "auto")
        )
        starts = alternate(
            {"free": lambda: start_worker(free), "sandboxed": lambda: start_worker(kept)},
            options.starts,
        )
    source, run = added(seconds, "stored", "directory"), added(seconds, "sandboxed", "stored")
    sandbox = added(starts, "sandboxed", "free")
    rows = [
        {"what": "a stored source, to a run", "adds s": round(source, 3), "below": LIMIT_SOURCE},
        {"what": "the sandbox, to a run", "adds s": round(run, 3), "below": LIMIT_SANDBOX},
        {"what": "the sandbox, to a worker", "adds s": round(sandbox, 3), "below": LIMIT_SANDBOX},
    ]
    plain = median(seconds["directory"])
    report(f"Hub sources; from a directory {plain:.2f} s", rows, json=options.json)
    return 0 if source < LIMIT_SOURCE and max(run, sandbox) < LIMIT_SANDBOX else 1


if __name__ == "__main__":
    sys.exit(main())
