"""What the guard of a worker in a sandbox bounds from outside: the number and memory of processes.

What the kernel can bound, the worker takes on itself: `envhub.sandbox.inside`. Every guard imports
this, so it imports little: pathlib alone would take 12 ms.
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

_PAUSE = 0.1
"""Seconds between two counts, which take some milliseconds when there are many processes."""

_RECEIVE, _SEND, _NOTIFICATION, _CONTINUE = 0xC0502100, 0xC0182101, 80, 1
"""Of linux/seccomp.h: two ioctls, the size of a request, and the flag that lets a call go on."""


def processes() -> int:
    """How many processes and threads one worker may have; libraries start some a core.

    Those that were let through and have not begun cannot be counted: a storm of them may come to
    twice as many.
    """
    return 256 + 4 * (os.cpu_count() or 1)


def supervise(connection: socket.socket, root: int) -> None:
    """Decide about the new processes of a worker until it has ended.

    Args:
        connection: Where the worker sends the descriptor on which it asks; closed at the end.
        root: Whose descendants are counted; the worker's are among them, wherever they hide.
    """
    with connection:
        _, received, _, _ = socket.recv_fds(connection, 1, 1)
    for listener in received:  # none if it died before
        _answer(listener, _admission(root, processes()))


def _answer(listener: int, may_start: Callable[[], bool]) -> None:
    """Answer requests for new processes until nobody is left who could ask."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while poll.poll()[0][1] & select.POLLIN:
            _answer_one(listener, may_start)
    finally:
        os.close(listener)  # without it, nothing more can be started


def _answer_one(listener: int, may_start: Callable[[], bool]) -> None:
    request = bytearray(_NOTIFICATION)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
        (number,) = struct.unpack_from("=Q", request)
        error, flags = (0, _CONTINUE) if may_start() else (-errno.EAGAIN, 0)
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, error, flags))
    except OSError as exc:
        if exc.errno != errno.ENOENT:  # who asked has died meanwhile
            raise


def _admission(root: int, bound: int) -> Callable[[], bool]:
    most, counted = bound, -math.inf  # how many there can be at most, and when that was seen

    def may_start() -> bool:
        nonlocal most, counted
        if most >= bound and time.monotonic() > counted + _PAUSE:
            most = sum(len(_threads(pid)) for pid in _descendants(root))
            counted = time.monotonic()
        if most >= bound:
            return False
        most += 1
        return True

    return may_start


def too_much_memory(root: int, memory_mb: int) -> bool:
    """Whether the descendants of a process use more together; what they share counts once."""
    pids = list(_descendants(root))
    if sum(_resident(pid) for pid in pids) <= memory_mb * _MB:
        return False
    # Exact, but the kernel takes milliseconds for it.
    return sum(_proportional(pid) for pid in pids) > memory_mb * _MB


def _resident(pid: int) -> int:
    pages = _read(f"/proc/{pid}/statm").split()
    return int(pages[1]) * _PAGE if pages else 0


def _proportional(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)  # it has ended, or hides this


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
    except OSError:  # it has ended
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""
