"""All of Meta-World's tasks: how they are reset, and what their episodes begin with."""

import subprocess
import sys
from pathlib import Path

import pytest
from envhub_metaworld.tasks import suites
from support.metaworld_goals import check_goals

SCRIPT = Path(__file__).parents[1] / "support" / "metaworld_resets.py"


@pytest.mark.soak
def test_every_reset_is_meta_worlds_own_to_the_bit():
    start = [sys.executable, str(SCRIPT), "10"]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout == "compared 50\n", done.stderr


@pytest.mark.soak
def test_every_goal_follows_the_seed_and_memory_stays_flat(tmp_path):
    check_goals([task.name for task in suites()["mt50"]], tmp_path)
