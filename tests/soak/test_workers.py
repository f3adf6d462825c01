"""A thousand opens and closes, and hosts killed at random moments: nothing is left. `make soak`.

The figures that a run prints go beyond what it asserts; `ENVHUB_SOAK=0.1` does a tenth of it.
"""

import gc
import os
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from support.hosts import PATIENT, kill_host
from support.paths import ASSETS
from support.processes import (
    children,
    descriptors,
    shared_memories,
    survivors,
    wait_for_end,
)

from envhub.errors import WorkerDied
from envhub.scratch import sweep
from envhub.types import FileSource, WorkerSpec
from envhub.vector.env import LazyVectorEnv

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
SHARE = float(os.environ.get("ENVHUB_SOAK", "1"))
OPENS = round(1000 * SHARE)
KILLS = round(50 * SHARE)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Temporary directories are made here."""
    place = tmp_path / "scratch"
    place.mkdir()
    (tmp_path / "marker").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def test_opens_and_closes(tmp_path, scratch, capsys):
    """Every tenth ends by a crash, and every env starts processes that it never ends."""
    source = FileSource(str(ASSETS / "fault_litter"), "env.py", "fault_litter", "litter")
    arguments = {"marker": str(tmp_path / "marker")}
    env = LazyVectorEnv(WorkerSpec(source, arguments, PATIENT, 1000), "litter", "litter", 1)
    open_and_close(env, 0)
    gc.collect()
    before, resident = descriptors(), resident_kb()
    began = time.monotonic()
    for number in range(OPENS):
        open_and_close(env, number)
        assert children() == []
    seconds = time.monotonic() - began
    gc.collect()
    assert descriptors() == before
    assert shared_memories() == []
    assert survivors(tmp_path) == []
    assert list(scratch.iterdir()) == []
    grown = resident_kb() - resident
    with capsys.disabled():
        print(f"\n{OPENS} opens in {seconds:.0f} s, resident memory {grown:+d} kB")
    assert grown < 10_000 + 10 * OPENS


def open_and_close(env, number):
    env.reset(seed=number)
    if number % 10 == 9:
        with pytest.raises(WorkerDied, match="killed by SIGKILL"):
            env.step(np.array([1]))
    else:
        env.step(np.array([0]))
        env.close()


def test_hosts_killed_at_random_moments(tmp_path, scratch, capsys):
    chance = random.Random()
    waits = []
    for _ in range(KILLS):
        delay = chance.uniform(0, 3)
        kill_host(delay, tmp_path)
        waits.append(delay)
        assert wait_for_end(tmp_path) == []
        assert shared_memories() == []
    left = len(list(scratch.iterdir()))
    sweep(str(scratch))
    assert list(scratch.iterdir()) == []
    with capsys.disabled():
        print(f"\n{KILLS} hosts killed after {min(waits):.2f} to {max(waits):.2f} s; {left} "
              "directories were left, and removed later")  # fmt: skip


def resident_kb():
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x]
    return int(line.split()[1])
