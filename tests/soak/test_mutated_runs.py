"""Run directories that somebody has changed, through every command that reads one.

Whatever is in them: no traceback, an exit code that the documentation has, at most 10 seconds and
at most 500 MB more than the command has anyway.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ASSETS, TESTS
from support.run_tools import WALK, envhub

NAMES = ("errors", "interrupted", "steer", "env_arg")
FORMAT_1 = [ASSETS / "runs_format1" / name for name in NAMES]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of both formats; the newest is as long as a run of the tests is."""
    place = tmp_path_factory.mktemp("bases")
    asked = ("--policy", "random", "--episodes", "3", "--workers", "1")
    answer = envhub("eval", WALK, *asked, "--out", place / "run", ENVHUB_HOME=str(place / "home"))
    assert answer.code == 0, answer.err
    return [place / "run", *FORMAT_1]


def problems(bases: list[Path], place: Path, first: int, count: int) -> list[dict[str, object]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "support.mutation_runner"),
            *map(str, (place, first, count, *bases)),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS), "ENVHUB_HOME": str(place / "home")},
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_few_changed_runs(bases, tmp_path):
    assert problems(bases, tmp_path, first=0, count=12) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_a_thousand_changed_runs(bases, tmp_path, first):
    assert problems(bases, tmp_path, first, count=100) == []
