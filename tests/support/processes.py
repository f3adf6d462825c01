"""Processes, descriptors and directories of this machine, as tests look at them."""

import os
import time
from contextlib import suppress
from pathlib import Path

import envhub

ROOT = str(Path(envhub.__file__).parent.parent)


def remove_empty(scratch):
    """A host killed right after it made a directory leaves it, empty."""
    for directory in scratch.iterdir():
        with suppress(OSError):
            directory.rmdir()


def wait_for_end(directory):
    """Those who still have something of a directory open after a while."""
    deadline = time.monotonic() + 20
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
    """The children of a process, by all of its threads, in order of birth."""
    tasks = Path(f"/proc/{pid or os.getpid()}/task")
    return [int(child) for path in tasks.glob("*/children") for child in path.read_text().split()]


def guards():
    """The guards of this process's workers, in order of birth."""
    names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in children()}
    return [pid for pid, name in names.items() if not name.startswith("envhub-fork")]


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(true):
    while not true():
        time.sleep(0.005)
