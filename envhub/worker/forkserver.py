"""A process that has imported the modules every worker needs, and forks workers from itself.

`envhub.host.forkserver` says when the host uses one. A forked worker is a child of the host, not of
the fork server, so that it behaves as one that was started: the host reaps it, and it dies with the
host.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from envhub.worker.guard import PR_SET_PDEATHSIG, SIGNALS, prctl

_CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call `clone`."""

_CLONE_PARENT = 0x8000

_PR_SET_NAME = 15


class Order(NamedTuple):
    """What the host sends for each worker to fork."""

    channel: int
    """The descriptor of the worker's end of the channel."""
    scratch: str
    """Its home, an empty directory."""


def serve_forks(descriptor: int, host_pid: int) -> Order:
    """Fork workers until the host closes the connection. Returns in forked workers only."""
    _die_with(host_pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _set_name("envhub-fork")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host handles Ctrl-C
    import envhub.worker.session  # noqa: F401 - for the forked workers

    if len(list(Path("/proc/self/task").iterdir())) > 1:
        os._exit(1)  # threads, such as those of BLAS, do not survive a fork
    connection = socket.socket(fileno=descriptor)
    while True:
        order, fds, _, _ = socket.recv_fds(connection, 2**20, 2)
        if not order:
            os._exit(0)
        pid = _clone()
        if pid == 0:
            connection.close()
            content = json.loads(order)
            return _become_worker(content["scratch"], content["variables"], *fds)
        for fd in fds:
            os.close(fd)
        connection.send(str(pid).encode())


def _become_worker(scratch: str, variables: dict[str, str], channel: int, output: int) -> Order:
    """Bring a forked process into the state of a newly started one."""
    import numpy as np

    _set_name("envhub-worker")
    os.setsid()
    os.chdir(scratch)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.update(variables)
    np.random.seed()  # or all workers would draw the same numbers
    return Order(channel, scratch)


def _clone() -> int:
    """Fork; the new process is a child of this one's parent, the host.

    The C library's record of the thread's id is stale in the new process. That process becomes the
    guard, which does not need it, and forks the worker in the usual way.
    """
    libc = ctypes.PyDLL(None, use_errno=True)
    pid: int = libc.syscall(_CLONE[os.uname().machine], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid < 0:
        sys.exit(f"clone failed: {os.strerror(ctypes.get_errno())}")
    return pid


def _die_with(host_pid: int) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host_pid:
        os._exit(1)


def _set_name(name: str) -> None:
    """Set the name that `top` shows; fork servers and workers have the same command line."""
    prctl(_PR_SET_NAME, name.encode())
