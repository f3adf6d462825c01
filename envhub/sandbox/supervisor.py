"""The limits that the guard enforces on a sandboxed worker: number and memory of its processes.

The worker sets the limits that the kernel enforces itself (`envhub.sandbox.inside`). Every guard
imports this module, so it imports little: pathlib alone would take 12 ms.
"""

import errno
import fcntl
import math
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator

_MB = 2**20

_PAGE = os.sysconf("SC_PAGE_SIZE")

_COUNT_INTERVAL = 0.1
"""Seconds between two counts, which take some milliseconds when there are many processes."""

_RECEIVE, _SEND, _NOTIFICATION, _CONTINUE = 0xC0502100, 0xC0182101, 80, 1
"""Of linux/seccomp.h: two ioctls, the size of a request, and the flag that continues a call."""


def processes() -> int:
    """Return how many processes and threads a worker may have; libraries start some per core.

    Processes that were allowed but have not started yet cannot be counted: a burst may reach twice
    the limit.
    """
    return 256 + 4 * (os.cpu_count() or 1)


def supervise(connection: socket.socket, root: int) -> None:
    """Decide about the new processes of a worker until it has ended.

    Args:
        connection: Receives the descriptor of the worker's requests; closed at the end.
        root: The process whose descendants are counted, including all of the worker's.
    """
    with connection:
        _, received, _, _ = socket.recv_fds(connection, 1, 1)
    for listener in received:  # empty if the worker died before
        _answer(listener, _admission(root, processes()))


def too_much_memory(root: int, memory_mb: int) -> bool:
    """Whether the descendants of a process together use more; shared memory counts once."""
    pids = list(_descendants(root))
    if sum(_resident(pid) for pid in pids) <= memory_mb * _MB:
        return False
    # Exact, but the kernel takes milliseconds for it.
    return sum(_proportional(pid) for pid in pids) > memory_mb * _MB


def _answer(listener: int, may_start: Callable[[], bool]) -> None:
    """Answer requests for new processes until no process of the worker is left."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while poll.poll()[0][1] & select.POLLIN:
            _answer_one(listener, may_start)
    finally:
        os.close(listener)  # from now on nothing can be started


def _answer_one(listener: int, may_start: Callable[[], bool]) -> None:
    request = bytearray(_NOTIFICATION)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
        (number,) = struct.unpack_from("=Q", request)
        error, flags = (0, _CONTINUE) if may_start() else (-errno.EAGAIN, 0)
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, error, flags))
    except OSError as exc:
        if exc.errno != errno.ENOENT:  # the process that asked has died meanwhile
            raise


def _admission(root: int, limit: int) -> Callable[[], bool]:
    """Return a function that decides whether one more process or thread may start."""
    most, counted_at = limit, -math.inf  # an upper bound of the count, and its time

    def may_start() -> bool:
        nonlocal most, counted_at
        if most >= limit and time.monotonic() > counted_at + _COUNT_INTERVAL:
            most = sum(len(_threads(pid)) for pid in _descendants(root))
            counted_at = time.monotonic()
        if most >= limit:
            return False
        most += 1
        return True

    return may_start


def _resident(pid: int) -> int:
    pages = _read(f"/proc/{pid}/statm").split()
    return int(pages[1]) * _PAGE if pages else 0


def _proportional(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)  # the process has ended, or the file is not readable


def _descendants(root: int) -> Iterator[int]:
    pending = [root]
    while pending:
        threads = _threads(pending.pop())
        children = [int(pid) for thread in threads for pid in _read(f"{thread}/children").split()]
        yield from children
        pending += children


def _threads(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:  # the process has ended
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
