"""A worker process, with its guards.

    python -m envhub.worker env|policy DESCRIPTOR HOST_PID SCRATCH
    python -m envhub.worker inside DESCRIPTOR SUPERVISOR GUARD SHELTER

The second form is a worker in a sandbox, whose outer guard is `envhub.worker.guard`. Both run
without `site`, so that no code of installed packages runs before the worker is confined.
"""

import atexit
import os
import sys
import threading
from pathlib import Path

from envhub.worker.guard import enter_worker, stand_guards, stand_inner_guard

_WORKER = b"envhub-worker"
"""What `ps` calls it, in at most 15 bytes."""


def main(arguments: list[str]) -> None:
    """Serve one host until it closes the channel."""
    match arguments:
        case ["inside", descriptor, supervisor, guard, shelter]:
            os.close(int(guard))  # the guard's own end of the socket
            _enter_sandbox(shelter, int(supervisor))
            _serve("env", int(descriptor))
        case [role, descriptor, host_pid, scratch]:
            stand_guards(int(host_pid), scratch, _WORKER if role == "env" else b"envhub-policy")
            _serve(role, int(descriptor))


def _enter_sandbox(shelter: str, supervisor: int) -> None:
    import json
    import site

    settings = json.loads(shelter)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    # An outer guard that has died already is noticed by `confine`, which cannot reach it.
    if settings["inner_guard"]:
        stand_inner_guard(os.getppid(), str(Path.cwd()), _WORKER)
    else:
        enter_worker(_WORKER)
    for name in ("OLDPWD", "PWD", "SHLVL", "_"):  # variables that shells and bubblewrap add
        os.environ.pop(name, None)

    from envhub.sandbox.inside import Protection, confine
    from envhub.sandbox.variables import set_deferred

    readable = [Path(path) for path in settings["readable"]]
    protection = Protection(**settings["protection"])
    confine(protection, scratch=Path.cwd(), readable=readable, supervisor=supervisor)
    set_deferred()
    site.main()


def _serve(role: str, descriptor: int) -> None:
    # Imported after the fork, so that the guard stays small.
    from envhub.loader import enter_worker as allow_foreign_code
    from envhub.worker.serve import serve

    if role == "env":
        allow_foreign_code()

    serve(role, descriptor)
    _end()


def _end() -> None:
    """Exit as an interpreter does, but without tearing down all modules, which takes 30 ms."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for non-daemon threads
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except Exception:  # foreign code may have replaced the streams
        os._exit(120)  # as an interpreter does when it cannot flush
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
