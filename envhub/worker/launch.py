"""How workers are started: their command lines, and the shell that starts those in a sandbox.

The guard of a worker in a sandbox stays outside, on an interpreter of its own. A shell starts both
at once and becomes the guard, which so is the worker's parent, and neither waits for the other's
interpreter.
"""

import json
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

import envhub
from envhub.process import Child, spawn
from envhub.runtime.sandbox import command, protect
from envhub.runtime.variables import worker_variables
from envhub.runtime.visible import interpreter_paths
from envhub.types import HERE, Confinement, Interpreter

# The package is found by its path, whatever the interpreter's own is. Its directory comes last, so
# that it adds this package and shadows nothing.
_BOOT = "import sys; sys.path.extend({paths!r}); from {module} import main; main(sys.argv[1:])"
_ROOT = str(Path(envhub.__file__).parent.parent)
# When memory is short the kernel shall end workers before the processes of the user's session; in
# some containers that cannot be said.
_TOGETHER = '{{ echo 500 2>/dev/null >/proc/self/oom_score_adj; exec "$@"; }} & exec {guard} "$!"'


def python_for(interpreter: Interpreter, module: str, *options: str) -> tuple[str, ...]:
    """The beginning of a command line that runs the `main` of a module of EnvHub."""
    apart = ("-s", "-B") if interpreter.kind == "isolated" else ()
    boot = _BOOT.format(paths=list(interpreter.paths or (_ROOT,)), module=module)
    return (interpreter.python, "-P", *apart, *options, "-c", boot)


def start_inside(
    confinement: Confinement, interpreter: Interpreter, *, scratch: Path, channel: int, output: int
) -> Child:
    """Start a worker in a sandbox, and its guard, which is the child.

    Args:
        confinement: What it is kept from.
        interpreter: What it runs on.
        scratch: Its home.
        channel: The descriptor of its end of the channel.
        output: The descriptor that its output goes to.
    """
    protection = protect(
        confinement.sandbox, network=confinement.network, memory_mb=confinement.memory_mb
    )
    isolated = interpreter.kind == "isolated"
    readable = (
        *interpreter_paths(Path(interpreter.python) if isolated else None),
        *map(Path, (*interpreter.paths, *confinement.readable)),
    )
    shelter = {"protection": protection.to_json(), "readable": list(map(str, readable))}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ends = (channel, theirs.fileno(), ours.fileno())
        worker = [
            *python_for(interpreter, "envhub.worker.__main__", "-S"),
            *("inside", *map(str, ends), json.dumps(shelter)),
        ]
        # The guard always runs on the host's interpreter.
        guard = [
            *python_for(HERE, "envhub.worker.guard", "-S"),
            *(str(os.getpid()), str(scratch), str(ours.fileno())),
            str(confinement.memory_mb or ""),
        ]
        return spawn(
            together(command(protection, worker, scratch=scratch, readable=readable), guard),
            env=worker_variables(scratch, isolated=isolated),
            cwd=scratch,
            output=output,
            pass_fds=ends,
        )


def together(worker: Sequence[str], guard: Sequence[str]) -> list[str]:
    """A command line that starts two others; the second one is told the first one's pid."""
    return ["/bin/sh", "-c", _TOGETHER.format(guard=shlex.join(guard)), "sh", *worker]
