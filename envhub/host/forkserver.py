"""Workers that are forked instead of started, as the host sees it.

Importing numpy and Gymnasium takes a quarter of a second of a core; a fork takes a hundredth. Two
workers of a kind are started directly. While two live, others come from a fork server, a process
that has imported what every worker needs (`envhub.worker.forkserver`), and which ends with the last
of them. Only our own code runs in it. Workers in a sandbox are never forked.
"""

import json
import os
import resource
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from envhub.process import Child, adopt, spawn
from envhub.sandbox.variables import scratch_variables

_STARTED_DIRECTLY = 2
"""Workers that are started, both at once, before a fork server is worth its own start."""

_TIMEOUT = 60.0
"""Seconds that a fork server may take to import what it needs."""

_NO_HOME = Path("/nonexistent")
"""The home of a fork server, which writes nothing."""

_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


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
        kind = _kinds.setdefault(key, _Kind(key, python, variables))
        fork = kind.living >= _STARTED_DIRECTLY
        child = kind.fork(scratch, channel, output) if fork else None
        if child is None:
            child = spawn(
                [*python, "env", str(channel), str(os.getpid()), str(scratch)],
                env=variables,
                cwd=scratch,
                output=output,
                pass_fds=(channel,),
            )
        kind.living += 1
        child.on_end = kind.leave
    return child


def _key(python: Sequence[str], variables: Mapping[str, str], scratch: Path) -> tuple[object, ...]:
    """What a process hands down to its children, and may not differ."""
    own = scratch_variables(scratch)
    handed_down = frozenset((k, v) for k, v in variables.items() if k not in own)
    limits = tuple(resource.getrlimit(limit) for limit in _LIMITS)
    cores = frozenset(os.sched_getaffinity(0))
    return os.getpid(), tuple(python), handed_down, limits, cores


class _Kind:
    """The workers of one kind, and where they come from."""

    def __init__(
        self, key: tuple[object, ...], python: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self.living = 0
        self._key = key
        self._python = python
        self._variables = variables
        self._server: _ForkServer | None = None
        self._unusable = False

    def fork(self, scratch: Path, channel: int, output: int) -> Child | None:
        """A forked worker; None if that does not work here."""
        if self._unusable:
            return None
        if self._server is None:
            self._server = _ForkServer(self._python, self._variables)
        child = self._server.fork(scratch, channel, output)
        if child is None:
            self._unusable = True
            self._close()
        return child

    def leave(self) -> None:
        """A worker has ended; the last one ends the fork server."""
        with _lock:
            self.living -= 1
            if self.living == 0:
                _kinds.pop(self._key, None)
                self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _ForkServer:
    """The process, as the host sees it."""

    def __init__(self, python: Sequence[str], variables: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_TIMEOUT)
        try:
            with theirs, Path(os.devnull).open("wb") as nothing:
                self._child = spawn(
                    [*python, "forkserver", str(theirs.fileno()), str(os.getpid())],
                    env={**variables, **scratch_variables(_NO_HOME)},
                    cwd=Path("/"),
                    output=nothing.fileno(),
                    pass_fds=(theirs.fileno(),),
                )
        except BaseException:
            self._socket.close()
            raise

    def fork(self, scratch: Path, channel: int, output: int) -> Child | None:
        """A new worker; None if the fork server has died."""
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


_kinds: dict[tuple[object, ...], _Kind] = {}

_lock = threading.RLock()
