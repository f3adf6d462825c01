"""Ten thousand answers of workers that were changed: each fits its request or is refused.

No traceback, at most 10 seconds for one, and at most 500 MB for the whole process.
"""

import os
import subprocess
import sys

import pytest
from support.paths import TESTS

pytestmark = pytest.mark.soak

COUNTS = {"tampered": 6000, "damaged": 3000, "noise": 1000}


@pytest.mark.parametrize("kind", COUNTS)
def test_changed_answers(kind):
    done = subprocess.run(
        [sys.executable, "-m", "support.mutated_answers", kind, str(COUNTS[kind])],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    taken, _ = map(int, done.stdout.split())
    assert taken >= COUNTS[kind]
