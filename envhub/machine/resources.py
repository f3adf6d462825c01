"""The cores and the memory that this process may use, not those that the machine has."""

import os
from collections.abc import Iterator
from pathlib import Path

_MB = 1024 * 1024

_HERE = Path("/")


def cores(root: Path = _HERE) -> int:
    """The cores that this process may keep busy: its affinity, and the CPU quotas of its cgroups.

    A fraction of a core is left out: a worker on it would be throttled.

    Args:
        root: Where `/proc` and `/sys` are looked for.
    """
    quotas = [int(quota) for quota in _cpu_quotas(root)]
    return max(1, min([len(os.sched_getaffinity(0)), *quotas]))


def memory_mb(root: Path = _HERE) -> int:
    """The memory in MB that is free to this process: in the machine, and in each of its cgroups.

    Args:
        root: Where `/proc` and `/sys` are looked for.
    """
    return max(0, min([_available(root), *_memory_left(root)])) // _MB


def _cpu_quotas(root: Path) -> Iterator[float]:
    for group in _cgroups("cpu", root):
        version_1 = f"{_read(group / 'cpu.cfs_quota_us')} {_read(group / 'cpu.cfs_period_us')}"
        match (_read(group / "cpu.max") or version_1).split():
            # No quota is "max" in version 2 and "-1" in version 1.
            case [quota, period] if quota.isdecimal():
                yield int(quota) / int(period)


def _memory_left(root: Path) -> Iterator[int]:
    for group in _cgroups("memory", root):
        limit = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
        if limit.isdecimal():
            used = _read(group / "memory.current") or _read(group / "memory.usage_in_bytes")
            yield int(limit) - int(used or 0) + _reclaimable(group)


def _reclaimable(group: Path) -> int:
    """The bytes of file cache that the kernel gives back before it kills; they count as used."""
    stat = dict(line.split()[:2] for line in _read(group / "memory.stat").splitlines())
    # In version 1 the plain figure leaves out the groups below, which the usage includes.
    return int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)


def _available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroups(controller: str, root: Path) -> Iterator[Path]:
    """The directories of the cgroups that this process is in; a limit on any of them binds."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _upwards(mounts, path)
            yield from _upwards(mounts / "unified", path)
        elif controller in controllers.split(","):
            yield from _upwards(mounts / controller, path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The group at `path` and those above it, as far as they can be seen from here.

    In a container the path may be the host's, or lie outside what is mounted (`/../..`); the
    container's own limits then stand at the mount itself, which always comes last.
    """
    group = mount if ".." in Path(path).parts else mount / path.lstrip("/")
    while group != mount:
        yield group
        group = group.parent
    yield mount


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
