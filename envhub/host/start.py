"""Starting processes for envs and policies: directly, forked or in a sandbox, decided here alone.

The guard of a worker in a sandbox stays outside, on an interpreter of its own. A shell starts both
at once and becomes the guard, which so is the worker's parent, and neither waits for the other's
interpreter.
"""

import json
import os
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import envhub
from envhub.host import forkserver
from envhub.process import Child, spawn
from envhub.sandbox.choose import command, protect
from envhub.sandbox.filesystem import interpreter_paths
from envhub.sandbox.variables import guard_variables, user_variables, worker_variables
from envhub.types import HERE, Confinement, Interpreter, PolicySpec, WorkerSpec

# The package is found by its path, whatever the interpreter's own is. Its directory comes last, so
# that it adds this package and shadows nothing.
_BOOT = "import sys; sys.path.extend({paths!r}); from {module} import main; main(sys.argv[1:])"
_ROOT = str(Path(envhub.__file__).parent.parent)
# When memory is short the kernel shall end workers before the processes of the user's session; in
# some containers that cannot be said. Only the worker enters its directory, which it can write.
_TOGETHER = (
    "{{ echo 500 2>/dev/null >/proc/self/oom_score_adj; "
    'cd "$1" && shift && exec "$@"; }} & exec {guard} "$!"'
)


@dataclass(frozen=True, slots=True)
class Ends:
    """What a new process is given by its host."""

    scratch: Path
    """Its home, an empty directory."""
    channel: int
    """The descriptor of its end of the channel."""
    output: int
    """The descriptor that its output goes to."""


def start(spec: WorkerSpec | PolicySpec, ends: Ends) -> Child:
    """Start a process for envs or for a policy.

    | way       | for                               | takes                              |
    |-----------|-----------------------------------|------------------------------------|
    | sandboxed | code of the Hub                   | an interpreter for worker and guard|
    | forked    | envs, from the third worker on    | a fork of the fork server          |
    | direct    | policies, and the first two envs  | an interpreter                     |
    """
    if isinstance(spec, PolicySpec):
        return _start_policy(spec.interpreter, ends)
    confinement = spec.confinement
    if confinement is not None and confinement.sandbox != "none":
        return _start_sandboxed(confinement, spec.interpreter, ends)
    isolated = spec.interpreter.kind == "isolated"
    python = python_for(spec.interpreter, "envhub.worker.__main__")
    variables = worker_variables(ends.scratch, isolated=isolated)
    return forkserver.start(python, variables, ends.scratch, ends.channel, ends.output)


def python_for(interpreter: Interpreter, module: str, *options: str) -> tuple[str, ...]:
    """The beginning of a command line that runs the `main` of a module of EnvHub."""
    apart = ("-s", "-B") if interpreter.kind == "isolated" else ()
    boot = _BOOT.format(paths=list(interpreter.paths or (_ROOT,)), module=module)
    return (interpreter.python, "-P", *apart, *options, "-c", boot)


def together(worker: Sequence[str], guard: Sequence[str], directory: Path) -> list[str]:
    """A command line that starts two others; the second one is given the first one's pid.

    Args:
        worker: Started in the directory.
        guard: Started where the whole command line is.
        directory: Which the worker can write to.
    """
    script = _TOGETHER.format(guard=shlex.join(guard))
    return ["/bin/sh", "-c", script, "sh", str(directory), *worker]


def _start_policy(interpreter: Interpreter, ends: Ends) -> Child:
    """A policy is the user's own: it has their variables, home and directory."""
    python = python_for(interpreter, "envhub.worker.__main__")
    return spawn(
        [*python, "policy", str(ends.channel), str(os.getpid()), str(ends.scratch)],
        env=user_variables(isolated=interpreter.kind == "isolated"),
        cwd=Path.cwd(),
        output=ends.output,
        pass_fds=(ends.channel,),
    )


def _start_sandboxed(confinement: Confinement, interpreter: Interpreter, ends: Ends) -> Child:
    """Start a worker in a sandbox, and its guard, which is the child."""
    protection = protect(
        confinement.sandbox, network=confinement.network, memory_mb=confinement.memory_mb
    )
    isolated = interpreter.kind == "isolated"
    readable = (
        *interpreter_paths(Path(interpreter.python) if isolated else None),
        *map(Path, (*interpreter.paths, *confinement.readable)),
    )
    shelter = {"protection": protection.to_json(), "readable": list(map(str, readable))}
    scratch = ends.scratch
    ours, theirs = socket.socketpair()
    with ours, theirs:
        passed = (ends.channel, theirs.fileno(), ours.fileno())
        worker = [
            *python_for(interpreter, "envhub.worker.__main__", "-S"),
            *("inside", *map(str, passed), json.dumps(shelter)),
        ]
        # The guard stands outside, on the host's interpreter: isolated from the user's variables,
        # with few of its own, and never in a directory that the worker can write to.
        guard = [
            *("/usr/bin/env", "-i", *(f"{k}={v}" for k, v in guard_variables().items())),
            *python_for(HERE, "envhub.worker.guard", "-I", "-S"),
            *(str(os.getpid()), str(scratch), str(ours.fileno())),
            str(confinement.memory_mb or ""),
        ]
        return spawn(
            together(
                command(protection, worker, scratch=scratch, readable=readable), guard, scratch
            ),
            env=worker_variables(scratch, isolated=isolated),
            cwd=Path("/"),
            output=ends.output,
            pass_fds=passed,
        )
