"""A process that has imported what every worker needs, and forks workers from itself.

Importing numpy and Gymnasium takes a quarter of a second of a core; a fork takes a hundredth. Two
workers of a host are started directly. While two live, others come from a nursery, which ends with
the last of them. Only our own code runs in it. Workers in a sandbox are never forked.

A forked worker is a child of the host, not of the nursery, so that nothing else is different: the
host reaps it, and it dies with the host.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from envhub.process import Child, adopt, spawn
from envhub.runtime.variables import scratch_variables
from envhub.worker.guard import PR_SET_PDEATHSIG, SIGNALS, prctl

_CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call `clone`."""
_CLONE_PARENT = 0x8000
_PR_SET_NAME = 15
_STARTED = 2
"""Workers that are started, both at once, before a nursery is worth its own start."""
_PATIENCE = 60.0
"""Seconds that a nursery may take to import what it needs."""
_NOWHERE = Path("/nonexistent")
"""The home of a nursery, which writes nothing."""
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class Order(NamedTuple):
    """What a forked worker needs to know."""

    channel: int
    scratch: str


def start(
    python: Sequence[str],
    variables: Mapping[str, str],
    scratch: Path,
    channel: int,
    output: int,
) -> Child:
    """Start a worker for envs: forked if another one lives already, else directly.

    Args:
        python: The beginning of its command line.
        variables: All of its environment.
        scratch: Its home.
        channel: The descriptor of its end of the channel.
        output: The descriptor that its output goes to.
    """
    key = _key(python, variables, scratch)
    with _lock:
        place = _places.setdefault(key, _Place(key, python, variables))
        child = place.fork(scratch, channel, output) if place.living >= _STARTED else None
        if child is None:
            child = spawn(
                [*python, "env", str(channel), str(os.getpid()), str(scratch)],
                env=variables,
                cwd=scratch,
                output=output,
                pass_fds=(channel,),
            )
        place.living += 1
        child.on_end = place.leave
    return child


def _key(python: Sequence[str], variables: Mapping[str, str], scratch: Path) -> tuple[object, ...]:
    """What a process hands down to its children, and may not differ."""
    own = scratch_variables(scratch)
    handed_down = frozenset((k, v) for k, v in variables.items() if k not in own)
    limits = tuple(resource.getrlimit(limit) for limit in _LIMITS)
    cores = frozenset(os.sched_getaffinity(0))
    return os.getpid(), tuple(python), handed_down, limits, cores


class _Place:
    """The workers of one kind, and where they come from."""

    def __init__(
        self, key: tuple[object, ...], python: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self.living = 0
        self._key = key
        self._python = python
        self._variables = variables
        self._nursery: _Nursery | None = None
        self._barren = os.uname().machine not in _CLONE

    def fork(self, scratch: Path, channel: int, output: int) -> Child | None:
        """A forked worker; None if that does not work here."""
        if self._barren:
            return None
        if self._nursery is None:
            self._nursery = _Nursery(self._python, self._variables)
        child = self._nursery.fork(scratch, channel, output)
        if child is None:
            self._barren = True
            self._close()
        return child

    def leave(self) -> None:
        """A worker has ended; the last one ends the nursery."""
        with _lock:
            self.living -= 1
            if self.living == 0:
                _places.pop(self._key, None)
                self._close()

    def _close(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None


class _Nursery:
    """The process, as the host sees it."""

    def __init__(self, python: Sequence[str], variables: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE)
        try:
            with theirs, Path(os.devnull).open("wb") as nothing:
                self._child = spawn(
                    [*python, "nursery", str(theirs.fileno()), str(os.getpid())],
                    env={**variables, **scratch_variables(_NOWHERE)},
                    cwd=Path("/"),
                    output=nothing.fileno(),
                    pass_fds=(theirs.fileno(),),
                )
        except BaseException:
            self._socket.close()
            raise

    def fork(self, scratch: Path, channel: int, output: int) -> Child | None:
        """A new worker; None if the nursery has died."""
        order = json.dumps({"scratch": str(scratch)}).encode()
        try:
            socket.send_fds(self._socket, [order], [channel, output])
            pid = int(self._socket.recv(64))
        except (OSError, ValueError):
            return None
        try:
            return adopt(pid)
        except OSError:  # no descriptor is to be had
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            raise

    def close(self) -> None:
        """End it; its workers live on."""
        self._socket.close()
        self._child.end()


_places: dict[tuple[object, ...], _Place] = {}
_lock = threading.RLock()


def tend(descriptor: int, host_pid: int) -> Order:
    """Be a nursery until the host has no more use for it. Returns only in forked workers."""
    _die_with(host_pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _call_self("envhub-nursery")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's to handle
    import envhub.worker.session  # noqa: F401 - so that its children have it

    if len(list(Path("/proc/self/task").iterdir())) > 1:
        os._exit(1)  # threads, as of BLAS, do not survive a fork
    connection = socket.socket(fileno=descriptor)
    while True:
        order, fds, _, _ = socket.recv_fds(connection, 2**16, 2)
        if not order:
            os._exit(0)
        pid = _clone()
        if pid == 0:
            connection.close()
            return _become(json.loads(order)["scratch"], *fds)
        for fd in fds:
            os.close(fd)
        connection.send(str(pid).encode())


def _become(scratch: str, channel: int, output: int) -> Order:
    """Make a forked process what a newly started one would be."""
    import numpy as np

    _call_self("envhub-worker")
    os.setsid()
    os.chdir(scratch)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.update(scratch_variables(Path(scratch)))
    np.random.seed()  # or all would draw the same numbers
    return Order(channel, scratch)


def _clone() -> int:
    """Fork; the new process is a child of this one's parent.

    The library's own record of the thread's number is not renewed. What runs on is the guard, which
    does not need it, and the worker is forked from that in the usual way.
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


def _call_self(name: str) -> None:
    """The name that `top` shows; nurseries and workers have the same command line."""
    prctl(_PR_SET_NAME, name.encode())
