"""How long commands take that load no benchmark, with 50 plugins installed.

The limit: 1.5 times `python -c "import click"`, which is what any command line of click costs, plus
50 ms. Run as `python tests/perf/start.py [--json] [--rounds N]`; the exit code is 1 if over it.
"""

import argparse
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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        install(Path(site), PLUGINS)
        measured = alternate(cases(site), arguments.rounds)
    base, *ours = ({"command": name, "median_s": median(runs)} for name, runs in measured.items())
    limit = FACTOR * base["median_s"] + EXTRA
    rows = [row | {"limit_s": limit, "of_limit": row["median_s"] / limit} for row in (base, *ours)]
    report(f"Start, median of {arguments.rounds} alternating runs", rows, json=arguments.json)
    return int(any(row["of_limit"] > 1.0 for row in rows))


def cases(site: str) -> dict[str, Callable[[], float]]:
    variables = {"PATH": os.environ["PATH"], "HOME": site, "PYTHONPATH": site}
    return {name: partial(seconds, argv, variables) for name, argv in CASES.items()}


def seconds(argv: list[str], variables: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, env=variables, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
