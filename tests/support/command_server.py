"""A process that has imported what the command needs, and forks a process for each command.

    python command_server.py DESCRIPTOR

A request is a message of JSON with the descriptors of stdout and stderr, the answer the exit code
as `subprocess` has it. In the new process everything is as after the start of an interpreter that
has imported these modules: its arguments, variables, directory, output and random numbers are its
own. What reads variables while it is imported is not imported here: `huggingface_hub`.
"""

import gc
import json
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from envhub import cli

FOREIGN = ("gymnasium", "jinja2", "rich.live", "rich.progress", "rich.table")
NOT_HERE = "huggingface_hub"
OF_THAT = (
    *("anyio", "anyio.streams.tls", "anyio.to_thread", "filelock", "h11", "httpcore2", "httpx"),
    *("httpx2", "tqdm", "truststore", "yaml"),
)
"""Packages that it imports, in one of its versions or another."""


def preload() -> dict[str, str]:
    """Import what commands import, early and late; returns the variables that modules set."""
    before = {*os.environ}
    commands = (f"envhub.cli.{module.name}" for module in pkgutil.iter_modules(cli.__path__))
    for name in (*commands, *FOREIGN, *filter(find_spec, OF_THAT)):
        import_module(name)
    assert NOT_HERE not in sys.modules
    gc.collect()
    gc.freeze()
    return {name: value for name, value in os.environ.items() if name not in before}


def serve(connection: socket.socket, imported: dict[str, str]) -> None:
    """Fork for each request; returns in the new process, and ends this one with its client."""
    locale = os.environ.get("LC_CTYPE")  # which an interpreter sets if nothing else says it
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 2**20, 2)
        if not data:
            os._exit(0)
        child = os.fork()
        if child == 0:
            connection.close()
            request = json.loads(data)
            request["variables"] = {**imported, **request["variables"]}
            return become(request, descriptors, locale)
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict, descriptors: list[int], locale: str | None) -> None:
    """Be the process that was asked for."""
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["variables"])
    if locale and not {"LANG", "LC_ALL", "LC_CTYPE"} & os.environ.keys():
        os.environ["LC_CTYPE"] = locale
    time.tzset()
    tempfile.tempdir = None
    np.random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["argv"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = os.path.dirname(sys.argv[0])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])), preload())
    cli.main()
