"""The cores and the memory that this process may use, which may be less than the machine has."""

import os
from collections.abc import Iterator
from pathlib import Path

_MB = 1024 * 1024
_ROOT = Path("/")


def cores(root: Path = _ROOT) -> int:
    """Return the cores that this process may use: by its affinity and its cgroups' CPU quotas.

    A fraction of a core does not count: a worker on it would be throttled.

    Args:
        root: The directory with `/proc` and `/sys`.
    """
    quotas = [int(quota) for quota in _cpu_quotas(root)]
    return max(1, min([len(os.sched_getaffinity(0)), *quotas]))


def memory_mb(root: Path = _ROOT) -> int:
    """Return the memory in MB that this process can still use, in the machine and its cgroups.

    Args:
        root: The directory with `/proc` and `/sys`.
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
    """Return the bytes of file cache, which count as used but are freed before a process dies."""
    stat = dict(line.split()[:2] for line in _read(group / "memory.stat").splitlines())
    # In version 1 only the total includes the groups below, as the usage does.
    return int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)


def _available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the directories of this process's cgroups; the limits of all of them apply."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _upwards(mounts, path)
            yield from _upwards(mounts / "unified", path)
        elif controller in controllers.split(","):
            yield from _upwards(mounts / controller, path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yield the group at `path` and those above it, as far as they are visible.

    In a container the path may be the host's, or lie outside the mount (`/../..`); the container's
    own limits are then those of the mount itself, which always comes last.
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
