"""The host's side of the fork server: workers that are forked instead of started.

Importing numpy and Gymnasium takes a quarter of a second of a core; a fork takes a hundredth. The
first two workers with the same settings are started directly. While two are alive, further ones are
forked by a fork server, a process that has imported the modules every worker needs
(`envhub.worker.forkserver`) and that ends with the last of them. It runs EnvHub's own code only.
Workers in a sandbox are never forked.
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
"""Workers that are started directly, before a fork server is worth its own start."""

_TIMEOUT = 60.0
"""Seconds that a fork server may take to start and import its modules."""

_NO_HOME = Path("/nonexistent")
"""The home of a fork server, which writes nothing."""

_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

_groups: dict[tuple[object, ...], "_Group"] = {}

_lock = threading.RLock()


def start(
    python: Sequence[str],
    variables: Mapping[str, str],
    scratch: Path,
    channel: int,
    output: int,
) -> Child:
    """Start a worker for envs: forked if two with the same settings are alive, else directly.

    Args:
        python: The beginning of its command line.
        variables: Its environment variables, all of them.
        scratch: Its home directory.
        channel: The descriptor of its end of the channel.
        output: The descriptor that its output goes to.
    """
    key = _key(python, variables, scratch)
    with _lock:
        group = _groups.setdefault(key, _Group(key, python, variables))
        fork = group.alive >= _STARTED_DIRECTLY
        own = {name: variables[name] for name in scratch_variables(scratch)}
        child = group.fork(scratch, own, channel, output) if fork else None
        if child is None:
            child = spawn(
                [*python, "env", str(channel), str(os.getpid()), str(scratch)],
                env=variables,
                cwd=scratch,
                output=output,
                pass_fds=(channel,),
            )
        group.alive += 1
        child.on_end = group.leave
    return child


def _key(python: Sequence[str], variables: Mapping[str, str], scratch: Path) -> tuple[object, ...]:
    """Return all that a forked worker inherits from the fork server, and that must be equal."""
    own = scratch_variables(scratch)
    inherited = frozenset((k, v) for k, v in variables.items() if k not in own)
    limits = tuple(resource.getrlimit(limit) for limit in _LIMITS)
    cores = frozenset(os.sched_getaffinity(0))
    return os.getpid(), tuple(python), inherited, limits, cores


class _Group:
    """The workers with the same settings, and their fork server."""

    def __init__(
        self, key: tuple[object, ...], python: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self.alive = 0
        self._key = key
        self._python = python
        self._variables = variables
        self._server: _ForkServer | None = None
        self._unusable = False

    def fork(
        self, scratch: Path, own: Mapping[str, str], channel: int, output: int
    ) -> Child | None:
        """Fork a worker; return None if forking does not work on this machine."""
        if self._unusable:
            return None
        if self._server is None:
            self._server = _ForkServer(self._python, self._variables)
        child = self._server.fork(scratch, own, channel, output)
        if child is None:
            self._unusable = True
            self._close()
        return child

    def leave(self) -> None:
        """Take note that a worker has ended; end the fork server with the last one."""
        with _lock:
            self.alive -= 1
            if self.alive == 0:
                _groups.pop(self._key, None)
                self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _ForkServer:
    """The process that forks workers."""

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

    def fork(
        self, scratch: Path, own: Mapping[str, str], channel: int, output: int
    ) -> Child | None:
        """Fork a worker; return None if the fork server has died."""
        order = json.dumps({"scratch": str(scratch), "variables": own}).encode()
        try:
            socket.send_fds(self._socket, [order], [channel, output])
            pid = int(self._socket.recv(64))
        except (OSError, ValueError):
            return None
        try:
            return adopt(pid)
        except OSError:  # no file descriptor is available
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            raise

    def close(self) -> None:
        """End the fork server; the workers that it forked stay alive."""
        self._socket.close()
        self._child.end()
