"""Starting processes for envs and policies: directly or in a sandbox, decided only here.

The guard of a worker in a sandbox stays outside, on an interpreter of its own. A shell starts the
worker and becomes the guard: so the guard is the worker's parent, and both interpreters start at
the same time.
"""

import json
import os
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import envhub
from envhub.machine.gl_choice import gl_variables
from envhub.machine.gpus import VISIBLE, next_device
from envhub.process import Child, spawn
from envhub.runtime.compiled import compiled_functions, is_private
from envhub.sandbox.choose import command, protect
from envhub.sandbox.filesystem import interpreter_paths
from envhub.sandbox.variables import (
    check_variables,
    defer_variables,
    guard_variables,
    user_variables,
    worker_variables,
)
from envhub.types import HERE, Confinement, Interpreter, PolicySpec, WorkerSpec

# EnvHub's package is found by its path, because the interpreter may not have it installed. Its
# directory comes last, so that it shadows nothing.
_BOOT = "import sys; sys.path.extend({paths!r}); from {module} import main; main(sys.argv[1:])"
_ROOT = str(Path(envhub.__file__).parent.parent)
# A raised oom_score_adj: when memory is short, the kernel kills workers before the processes of the
# user's session. Some containers forbid to set it. Only the worker enters its directory, which it
# can write to.
_TOGETHER = (
    "{{ echo 500 2>/dev/null >/proc/self/oom_score_adj; "
    'cd "$1" && shift && exec "$@"; }} & exec {guard} "$!"'
)


@dataclass(frozen=True, slots=True)
class Ends:
    """What the host gives to a new process."""

    scratch: Path
    """An empty directory, the home of a worker."""
    channel: int
    """The descriptor of its end of the channel."""
    output: int
    """The descriptor that its output goes to."""


def start(spec: WorkerSpec | PolicySpec, ends: Ends) -> Child:
    """Start a process for envs or for a policy.

    A worker in a sandbox costs two interpreters, its own and its guard's; any other process costs
    one.
    """
    if isinstance(spec, PolicySpec):
        return _start_policy(spec, ends)
    confinement = spec.confinement
    check_variables(spec.env_vars, confined=confinement is not None)
    if confinement is not None and confinement.in_sandbox:
        return _start_sandboxed(spec, confinement, ends)
    python = python_for(spec.interpreter, "envhub.worker.__main__")
    variables = {**_variables(spec, ends.scratch), **_compiled(spec), **spec.env_vars}
    return spawn(
        [*python, "env", str(ends.channel), str(os.getpid()), str(ends.scratch)],
        env=variables,
        cwd=ends.scratch,
        output=ends.output,
        pass_fds=(ends.channel,),
    )


def python_for(interpreter: Interpreter, module: str, *options: str) -> tuple[str, ...]:
    """Return the beginning of a command line that runs `main` of one of EnvHub's modules."""
    apart = ("-s", "-B") if interpreter.kind == "isolated" else ()
    boot = _BOOT.format(paths=list(interpreter.paths or (_ROOT,)), module=module)
    return (interpreter.python, "-P", *apart, *options, "-c", boot)


def together(worker: Sequence[str], guard: Sequence[str], directory: Path) -> list[str]:
    """Return a command line that starts two others; the guard gets the worker's pid.

    Args:
        worker: Started in the directory.
        guard: Started where the whole command line is.
        directory: The directory that the worker can write to.
    """
    script = _TOGETHER.format(guard=shlex.join(guard))
    return ["/bin/sh", "-c", script, "sh", str(directory), *worker]


def _variables(spec: WorkerSpec, scratch: Path) -> dict[str, str]:
    """Return all variables of a worker but those that the user lets through."""
    isolated, local = spec.interpreter.kind == "isolated", spec.confinement is None
    variables = worker_variables(scratch, isolated=isolated, local=local)
    if not spec.makes_envs:  # finding out what draws may take a process
        return variables
    variables |= gl_variables({**variables, **spec.env_vars})
    return variables | next_device({**variables, **spec.env_vars})


def _compiled(spec: WorkerSpec | PolicySpec) -> dict[str, str]:
    """Return the variable of the directory in which a runtime's compiled functions are kept.

    Processes of the user's own code share them; those in a sandbox do not, because what is kept
    there is executed.
    """
    key = spec.interpreter.key
    place = None if key is None else compiled_functions(key)
    return {"NUMBA_CACHE_DIR": str(place)} if place is not None and is_private(place) else {}


def _start_policy(spec: PolicySpec, ends: Ends) -> Child:
    """Start a policy, which is the user's own code: with their variables, home and directory."""
    python = python_for(spec.interpreter, "envhub.worker.__main__")
    variables = _compiled(spec) | user_variables(isolated=spec.interpreter.kind != "here")
    return spawn(
        [*python, "policy", str(ends.channel), str(os.getpid()), str(ends.scratch)],
        env=variables if spec.device is None else {**variables, VISIBLE: spec.device},
        cwd=Path(spec.directory),
        output=ends.output,
        pass_fds=(ends.channel,),
    )


def _start_sandboxed(spec: WorkerSpec, confinement: Confinement, ends: Ends) -> Child:
    """Start a worker in a sandbox together with its guard, which is the child process."""
    interpreter = spec.interpreter
    protection = protect(
        confinement.sandbox, network=confinement.network, memory_mb=confinement.memory_mb
    )
    isolated = interpreter.kind == "isolated"
    readable = (
        *interpreter_paths(Path(interpreter.python) if isolated else None),
        *map(Path, (*interpreter.paths, *confinement.readable)),
    )
    shelter = {
        "protection": protection.to_json(),
        "inner_guard": protection.needs_inner_guard,
        "readable": list(map(str, readable)),
    }
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
            *(str(confinement.memory_mb or ""), "inner" if protection.needs_inner_guard else ""),
        ]
        return spawn(
            together(
                command(protection, worker, scratch=scratch, readable=readable), guard, scratch
            ),
            env=_variables(spec, scratch) | defer_variables(spec.env_vars),
            cwd=Path("/"),
            output=ends.output,
            pass_fds=passed,
        )
