"""What a run records about the machine."""

import os
import platform
import subprocess
import sys

import pytest

from envhub.machine.facts import cpu_flags, describe_host, describe_process
from envhub.sandbox.variables import kernel_variables

KERNEL = "import numpy; from envhub.machine.facts import describe_process as d; print(d())"


def test_the_host():
    facts = describe_host()
    assert list(facts) == ["arch", "cpu", "flags", "libc"]
    assert facts["arch"] == platform.machine()
    assert facts["flags"] == list(cpu_flags())
    assert set(facts["flags"]) <= {"avx2", "avx512f", "fma"}


def test_a_process_says_what_it_computes_and_draws_with(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert describe_process()["gl"] == "egl"
    monkeypatch.delenv("MUJOCO_GL")
    assert "gl" not in describe_process()


@pytest.mark.skipif(not kernel_variables(), reason="the kernels are fixed only on x86-64 with AVX2")
@pytest.mark.parametrize("kernel", ["Haswell", "Nehalem"])
def test_the_kernel_is_the_one_that_was_chosen(kernel):
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        env={**os.environ, "OPENBLAS_CORETYPE": kernel},
        capture_output=True,
        text=True,
        check=True,
    )
    if "openblas" not in done.stdout:
        pytest.skip("this numpy has no OpenBLAS")
    assert f"'openblas': '{kernel}'" in done.stdout
