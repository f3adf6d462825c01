"""What is decided before a run begins."""

import os

from envhub.evaluation.prepare import auto_workers
from envhub.machine import resources


def test_as_many_workers_as_cores_memory_and_episodes_allow():
    cores, memory = resources.cores(), resources.memory_mb()
    assert auto_workers(1, 10**6) == cores
    assert auto_workers(1, 1) == 1
    assert auto_workers(1, 0) == 1
    assert auto_workers(memory // 3, 10**6) <= min(cores, 4)
    assert auto_workers(10 * memory + 1, 10**6) == 1
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert auto_workers(1, 10**6) == 1
    finally:
        os.sched_setaffinity(0, allowed)
