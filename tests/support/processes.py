"""Processes, descriptors and directories of this machine, as tests look at them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import envhub

ROOT = str(Path(envhub.__file__).parent.parent)

LASTING: set[int] = set()
"""Children of this process that live longer than a test, and are no business of one."""


def wait_for_end(directory):
    """Those who still have something of a directory open after a while, on a busy machine too."""
    deadline = time.monotonic() + 60
    while survivors(directory) or survivors(directory):  # one may fork while we look
        if time.monotonic() > deadline:
            return survivors(directory)
        time.sleep(0.02)
    return []


def survivors(directory):
    """Processes that stand in a directory, hold a file there, or were started with its name."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            links = [os.readlink(process / "cwd")]
            links += [os.readlink(link) for link in (process / "fd").iterdir()]
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if any(link.startswith(str(directory)) for link in links) or str(directory) in command:
            found.append((int(process.name), command))
    return found


def descriptors():
    """What this process has open; the selectors' own are told apart by number."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add((link.name, os.readlink(link)))
        except OSError:  # the one that lists them
            continue
    return {(name, target) for name, target in found if not target.startswith("/proc/")}


def shared_memories():
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if "memfd:envhub" in line]


def children(pid=None):
    """The children of a process, of this one by default, by all its threads, in order of birth."""
    found = []
    for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, path.read_text().split())
    return found if pid else [child for child in found if child not in LASTING]


def descendants(pid: int) -> dict[int, tuple[int, str]]:
    """The processes below one: each one's parent and the command line."""
    below: dict[int, tuple[int, str]] = {}
    pending = [(pid, child) for child in children(pid)]
    while pending:
        parent, child = pending.pop()
        with suppress(OSError):  # it has ended meanwhile
            line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if child not in LASTING:
                below[child] = (parent, line.strip())
            pending += [(child, grandchild) for grandchild in children(child)]
    return below


def guards():
    """The outer guards of this process's workers, in order of birth."""
    names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in children()}
    return [pid for pid, name in names.items() if not name.startswith("envhub-fork")]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, from the state on; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not reaped does not."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def start_time(pid: int) -> str:
    """When a process began, in ticks since the machine did; empty if it has ended."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def kill(pid: int) -> None:
    """End a process at once, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def ending(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """See to it that a process has ended, whatever happens to its test."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], object]) -> None:
    """Look again and again; pytest's own limit is the only one."""
    while not condition():
        time.sleep(0.005)
