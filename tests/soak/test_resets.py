"""All of Meta-World's tasks, reset by the plugin and by themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "metaworld_resets.py"


@pytest.mark.soak
def test_every_reset_is_meta_worlds_own_to_the_bit():
    start = [sys.executable, str(SCRIPT), "10"]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout == "compared 50\n", done.stderr
