"""How long commands take that load no benchmark, with 50 plugins installed; how long workers take.

    python tests/perf/start.py [--json] [--rounds N] [--worker-rounds N] [--against DIRECTORY]

The limit for commands: 1.5 times `python -c "import click"`, which is what any command line of
click costs, plus 50 ms. The exit code is 1 if over it. The time of workers, from `make_env` to
their first observations, is printed and not judged; `--against` measures another clone in turns.
"""

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from dummies import install
from measure import alternate, report

PLUGINS = 50
FACTOR = 1.5
EXTRA = 0.050

ROOT = Path(__file__).parents[2]
WORKERS = (1, 8)
OPEN = """
import sys, time
import envhub

begun = time.perf_counter()
envs = envhub.make_env(sys.argv[1], int(sys.argv[2]))
next(iter(next(iter(envs.values())).values())).reset(seed=0)
print(time.perf_counter() - begun)
envhub.close_envs(envs)
"""
ENVHUB = [sys.executable, "-c", "from envhub.cli import main; main()"]
CASES = {
    'python -c "import click"': [sys.executable, "-c", "import click"],
    "envhub --help": [*ENVHUB, "--help"],
    f"envhub list, {PLUGINS} plugins": [*ENVHUB, "list"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how fast commands start.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--worker-rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another clone of EnvHub")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        install(Path(site), PLUGINS)
        measured = alternate(cases(site), arguments.rounds)
    base, *ours = ({"command": name, "median_s": median(runs)} for name, runs in measured.items())
    limit = FACTOR * base["median_s"] + EXTRA
    rows = [row | {"limit_s": limit, "of_limit": row["median_s"] / limit} for row in (base, *ours)]
    report(f"Start, median of {arguments.rounds} alternating runs", rows, json=arguments.json)
    report_workers(arguments)
    return int(any(row["of_limit"] > 1.0 for row in rows))


def report_workers(arguments: argparse.Namespace) -> None:
    clones = [ROOT, *([arguments.against.resolve()] if arguments.against else [])]
    for clone in clones:
        compileall.compile_dir(clone / "envhub", quiet=1)  # as pip does; workers do not
    cases = {
        f"{count} workers, {clone}": partial(start_workers, count, clone)
        for count in WORKERS
        for clone in clones
    }
    measured = alternate(cases, arguments.worker_rounds)
    rows = [
        {"case": name, "median_s": median(runs), "least_s": min(runs), "most_s": max(runs)}
        for name, runs in measured.items()
    ]
    title = f"Workers, median of {arguments.worker_rounds} alternating runs"
    report(title, rows, json=arguments.json)


def start_workers(count: int, clone: Path) -> float:
    reach = ROOT / "docs" / "examples" / "reach"
    command = [sys.executable, "-c", OPEN, str(reach), str(count)]
    variables = {**os.environ, "PYTHONPATH": str(clone)}  # workers have it too
    done = subprocess.run(
        command, cwd=clone, env=variables, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def cases(site: str) -> dict[str, Callable[[], float]]:
    variables = {"PATH": os.environ["PATH"], "HOME": site, "PYTHONPATH": site}
    return {name: partial(seconds, argv, variables) for name, argv in CASES.items()}


def seconds(argv: list[str], variables: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, env=variables, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
