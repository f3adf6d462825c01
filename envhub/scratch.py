"""Scratch directories: temporary directories whose names tell which process made them.

A process that is killed cannot remove its own. So the name says who made it: a hash of the boot and
of the namespaces, the process id, and the time of its start, which tells it from a later process
with the same id. Whoever makes the next one removes those of the same user whose process has ended.
A name from another machine, another container or before a restart is never touched, because
nothing is known about its process.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from envhub.errors import NoScratchDirectory
from envhub.removal import remove_tree

_NAME = re.compile(r"envhub-([0-9a-f]{8})-([1-9][0-9]{0,6})-([0-9]{1,20})-[0-9a-f]{8}")
"""The machine, the process, its start in clock ticks, and something random."""
_MACHINE = "/proc/sys/kernel/random/boot_id"
_NAMESPACES = ("pid", "time")
"""Process ids and times of start are comparable only within the same ones."""
_STATE, _THREADS, _START = 0, 17, 19
"""Fields of /proc/PID/stat after the name, see proc_pid_stat(5)."""


def make_scratch() -> Path:
    """Make an empty directory for this user only; the caller removes it.

    The first call of a process also removes the directories that ended processes have left.

    Raises:
        NoScratchDirectory: It cannot be made.
    """
    parent = temporary_directory()
    _sweep_once(parent)
    while True:
        path = Path(parent, _new_name())
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as exc:
            raise NoScratchDirectory(parent, exc.strerror or str(exc)) from exc
        return path


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A scratch directory that is removed at the end."""
    path = make_scratch()
    try:
        yield path
    finally:
        remove_tree(path)


def temporary_directory() -> str:
    """Return `$TMPDIR`, usable or not; if it is not set, the directory that Python finds."""
    chosen = os.environ.get("TMPDIR")
    if chosen:
        return os.path.abspath(chosen)  # noqa: PTH100 - keeps links
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as exc:
        raise NoScratchDirectory("/tmp", "it cannot be written") from exc  # noqa: S108


def sweep(parent: str) -> None:
    """Remove the scratch directories of this user whose process has ended."""
    try:
        names = os.listdir(parent)  # noqa: PTH208 - faster, where there are thousands
    except OSError:  # whoever makes a directory there is told
        return
    for name in names:
        match = _NAME.fullmatch(name)
        if match and match[1] == _machine() and _has_ended(int(match[2]), int(match[3])):
            remove_tree(Path(parent, name), owner=os.geteuid())


_sweep_once = cache(sweep)


def _new_name() -> str:
    pid = os.getpid()
    fields = _stat(pid)
    started = fields[_START] if fields else "0"
    return f"envhub-{_machine()}-{pid}-{started}-{os.urandom(4).hex()}"


@cache
def _machine() -> str:
    """Return a hash of what makes process ids unique; a random one if that is not known."""
    try:
        boot = Path(_MACHINE).read_text()
        spaces = [str(Path("/proc/self/ns", name).readlink()) for name in _NAMESPACES]
    except OSError:
        return os.urandom(4).hex()
    return hashlib.sha256(" ".join((boot, *spaces)).encode()).hexdigest()[:8]


def _has_ended(pid: int, started: int) -> bool:
    """Whether a process that began at a time has ended; False if that is not known."""
    fields = _stat(pid)
    if fields:
        zombie = fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1
        return zombie or int(fields[_START]) != started
    try:
        os.kill(pid, 0)  # /proc may hide processes
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none if there is no such file."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
