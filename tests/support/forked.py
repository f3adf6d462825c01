"""The command, as a process of its own: forked by `command_server.py`, which has imported it.

Starting an interpreter and importing numpy and Gymnasium takes a third of a second of a core, and
the tests run the command thousands of times. A command is started instead if it has variables that
an interpreter or numpy reads when it starts, or while another one runs.
"""

import atexit
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from envhub.sandbox.variables import kernel_variables
from support.processes import LASTING

ENVHUB = Path(sys.executable).with_name("envhub")

Finished = subprocess.CompletedProcess[bytes]

_READ_AT_START = ("PYTHON", "LC_", "LD_", "OPENBLAS_", "OMP_", "MKL_")
_WITHOUT_EFFECT = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
_LONGEST = 100_000
"""Bytes of a request: the kernel takes twice as much."""

_one_at_a_time = threading.Lock()


def run_command(
    arguments: Sequence[object], *, directory: Path, variables: Mapping[str, str]
) -> Finished:
    """Run the command to its end, with these variables and no others."""
    argv = [str(ENVHUB), *map(str, arguments)]
    request = {
        "argv": argv,
        "directory": str(directory),
        "variables": dict(variables),
        "umask": _umask(),
    }
    message = json.dumps(request).encode()
    forked = _can_be_forked(variables) and len(message) < _LONGEST
    if forked and _one_at_a_time.acquire(blocking=False):
        try:
            return Finished(argv, *_ask(message))
        finally:
            _one_at_a_time.release()
    return subprocess.run(
        argv,
        cwd=directory,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def plain_text(printed: bytes) -> str:
    """What a command printed, with plain line ends."""
    return printed.decode().replace("\r\n", "\n").replace("\r", "\n")


def _can_be_forked(variables: Mapping[str, str]) -> bool:
    read = {k: v for k, v in variables.items() if k.startswith(_READ_AT_START)}
    for name in _WITHOUT_EFFECT:
        read.pop(name, None)
    encoding = variables.get("LANG", "C.UTF-8").upper().replace("-", "")
    return read == kernel_variables() and encoding.endswith("UTF8")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _ask(message: bytes) -> tuple[int, bytes, bytes]:
    """Have a command run by the server; returns its exit code and what it printed."""
    connection = _server()
    try:
        ours, theirs = zip(os.pipe(), os.pipe(), strict=True)
        socket.send_fds(connection, [message], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        out, err = _read(ours)
        return int(connection.recv(2**16)), out, err
    except BaseException:  # as a limit of time: an answer may come that nobody waits for
        _server.cache_clear()
        connection.close()
        raise


def _read(descriptors: Sequence[int]) -> list[bytes]:
    """Read pipes to their ends."""
    texts = dict.fromkeys(descriptors, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                part = os.read(key.fd, 2**16)
                texts[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return list(texts.values())


@cache
def _server() -> socket.socket:
    """The connection to the server, which ends when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = Path(__file__).with_name("command_server.py")
    few = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "OPENBLAS_NUM_THREADS": "1"}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, script, str(theirs.fileno())],
            cwd="/",
            env={**few, **kernel_variables()},
            stdin=subprocess.DEVNULL,
            stdout=theirs,  # as unseekable as the pipes of commands
            stderr=theirs,
            pass_fds=[theirs.fileno()],
        )
    LASTING.add(process.pid)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
