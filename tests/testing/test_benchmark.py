"""The class that authors subclass, as pytest runs it."""

import os
import subprocess
import sys

from support.zoo import ZOO

from envhub.check import CHECKS

TESTS = """
from pathlib import Path

from envhub.testing import BenchmarkConformance


class TestGood(BenchmarkConformance):
    ref = Path("zoo")  # relative to this file
    tasks = ("good",)
    workers = 0


class TestBroken(TestGood):
    tasks = ("seeds-differ", "horizon")
    waived = {"horizon": "the paper says so", "loads": "it does"}
"""


def test_each_check_is_a_test(tmp_path):
    (tmp_path / "test_zoo.py").write_text(TESTS)
    (tmp_path / "zoo").symlink_to(ZOO)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rxf", "test_zoo.py"]
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    done = subprocess.run(argv, cwd=tmp_path, env=own, capture_output=True, text=True)
    count = len(CHECKS)
    assert f"2 failed, {2 * count - 3} passed, 1 xfailed" in done.stdout, done.stdout
    assert "The episodes of three seeds are the same." in done.stdout
    assert "Fifty episodes would be one episode counted fifty times." in done.stdout
    assert "Use the seed, or options['init_state'], in reset()." in done.stdout
    assert "loads passes: remove it from `waived`." in done.stdout
    assert "the paper says so" in done.stdout
