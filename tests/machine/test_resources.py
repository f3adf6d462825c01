"""The cores and memory that this process may use, against made-up cgroup trees."""

import os
from pathlib import Path

import pytest

from envhub.machine.resources import cores, memory_mb

MB = 1024 * 1024
UNLIMITED_V1 = "9223372036854771712"


def tree(root: Path, cgroup: str, files: dict[str, str], available_mb: int = 8000) -> Path:
    """A root with a `/proc` that says `cgroup` and these files below `/sys/fs/cgroup`."""
    meminfo = f"MemTotal: 99999999 kB\nMemAvailable: {available_mb * 1024} kB\n"
    everything = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    everything |= {"proc/self/cgroup": cgroup, "proc/meminfo": meminfo}
    for name, text in everything.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def four_cores(monkeypatch):
    """Whatever this machine has, four cores of affinity: quotas need something to cut."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})


CPU = {
    "no cgroup at all": ("", {}, 4),
    "v2 without a quota": ("0::/a\n", {"a/cpu.max": "max 100000\n"}, 4),
    "v2 quota": ("0::/a\n", {"a/cpu.max": "200000 100000\n"}, 2),
    "v2 quota above the affinity": ("0::/a\n", {"a/cpu.max": "6400000 100000\n"}, 4),
    "v2 fraction is left out": ("0::/a\n", {"a/cpu.max": "250000 100000\n"}, 2),
    "v2 less than a core": ("0::/a\n", {"a/cpu.max": "10000 100000\n"}, 1),
    "v2 quota of a parent": (
        "0::/a/b/c\n",
        {"a/cpu.max": "100000 100000\n", "a/b/c/cpu.max": "300000 100000\n"},
        1,
    ),
    "v2 container whose path is the host's": (
        "0::/system.slice/docker-1.scope\n",
        {"cpu.max": "300000 100000\n"},
        3,
    ),
    "v2 outside of the namespace": ("0::/../../x\n", {"cpu.max": "300000 100000\n"}, 3),
    "v1 without a quota": (
        "4:cpu,cpuacct:/a\n",
        {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
        4,
    ),
    "v1 quota": (
        "4:cpu,cpuacct:/a\n1:name=systemd:/\n",
        {"cpu/a/cpu.cfs_quota_us": "150000\n", "cpu/a/cpu.cfs_period_us": "50000\n"},
        3,
    ),
    "hybrid": (
        "4:memory:/a\n0::/a\n",
        {"unified/a/cpu.max": "200000 100000\n"},
        2,
    ),
    "another controller's files do not count": (
        "4:cpuset:/a\n",
        {"cpu/a/cpu.cfs_quota_us": "100000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
        4,
    ),
}


@pytest.mark.parametrize(("cgroup", "files", "expected"), CPU.values(), ids=CPU.keys())
@pytest.mark.usefixtures("four_cores")
def test_cores(tmp_path, cgroup, files, expected):
    assert cores(tree(tmp_path, cgroup, files)) == expected


MEMORY = {
    "no cgroup: what is available": ("", {}, 8000),
    "v2 without a limit": ("0::/a\n", {"a/memory.max": "max\n"}, 8000),
    "v2 limit, nothing used": ("0::/a\n", {"a/memory.max": f"{3000 * MB}\n"}, 3000),
    "v2 limit less what is used": (
        "0::/a\n",
        {"a/memory.max": f"{3000 * MB}\n", "a/memory.current": f"{1000 * MB}\n"},
        2000,
    ),
    "v2 file cache counts as free": (
        "0::/a\n",
        {
            "a/memory.max": f"{3000 * MB}\n",
            "a/memory.current": f"{1000 * MB}\n",
            "a/memory.stat": f"anon 1\ninactive_file {400 * MB}\n",
        },
        2400,
    ),
    "v2 limit above what the machine has": (
        "0::/a\n",
        {"a/memory.max": f"{64000 * MB}\n"},
        8000,
    ),
    "v2 limit of a parent": (
        "0::/a/b\n",
        {"a/memory.max": f"{2000 * MB}\n", "a/b/memory.max": f"{5000 * MB}\n"},
        2000,
    ),
    "v2 nothing left": (
        "0::/a\n",
        {"a/memory.max": f"{100 * MB}\n", "a/memory.current": f"{101 * MB}\n"},
        0,
    ),
    "v1 without a limit": (
        "4:memory:/a\n",
        {"memory/a/memory.limit_in_bytes": f"{UNLIMITED_V1}\n"},
        8000,
    ),
    "v1 limit, used and cache of the groups below": (
        "4:memory:/a\n",
        {
            "memory/a/memory.limit_in_bytes": f"{3000 * MB}\n",
            "memory/a/memory.usage_in_bytes": f"{1000 * MB}\n",
            "memory/a/memory.stat": f"inactive_file 0\ntotal_inactive_file {500 * MB}\n",
        },
        2500,
    ),
}


@pytest.mark.parametrize(("cgroup", "files", "expected"), MEMORY.values(), ids=MEMORY.keys())
def test_memory(tmp_path, cgroup, files, expected):
    assert memory_mb(tree(tmp_path, cgroup, files)) == expected


def test_without_proc_the_kernel_is_asked(tmp_path):
    assert 1 <= cores(tmp_path) <= (os.cpu_count() or 1)
    assert memory_mb(tmp_path) > 0


def test_affinity_of_this_very_process():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_this_machine():
    assert 1 <= cores() <= (os.cpu_count() or 1)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MB
    assert 0 < memory_mb() <= total
