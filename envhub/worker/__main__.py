"""A worker process, with its guard.

    python -m envhub.worker env|policy DESCRIPTOR HOST_PID SCRATCH
    python -m envhub.worker guard HOST_PID SCRATCH SUPERVISOR MEMORY_MB COMMAND ...
    python -m envhub.worker inside DESCRIPTOR SUPERVISOR SHELTER
    python -m envhub.worker nursery DESCRIPTOR HOST_PID

The second form guards a worker in a sandbox, which the command starts in the third. Both run
without `site`, so that no code of installed packages runs before the sandbox is closed. The fourth
forks workers that are not in a sandbox.
"""

import os
import sys
from pathlib import Path

from envhub.worker.guard import Watch, stand_guard


def main(arguments: list[str]) -> None:
    """Serve one host until it closes the channel."""
    match arguments:
        case ["guard", host_pid, scratch, supervisor, memory_mb, *command]:
            watch = Watch(int(supervisor), int(memory_mb) if memory_mb else None)
            _guard_command(int(host_pid), Path(scratch), watch, command)
        case ["inside", descriptor, supervisor, shelter]:
            _go_inside(shelter, int(supervisor))
            _serve("env", int(descriptor))
        case ["nursery", descriptor, host_pid]:
            from envhub.worker.nursery import tend

            order = tend(int(descriptor), int(host_pid))
            stand_guard(int(host_pid), Path(order.scratch))
            _serve("env", order.channel)
        case [role, descriptor, host_pid, scratch]:
            stand_guard(int(host_pid), Path(scratch) if scratch else None)
            _serve(role, int(descriptor))


def _guard_command(host_pid: int, scratch: Path, watch: Watch, command: list[str]) -> None:
    stand_guard(host_pid, scratch, watch)
    from envhub.runtime.bounds import limits

    os.set_inheritable(watch.supervisor, False)  # the guard's own end
    limits(watch.memory_mb)
    os.execv(command[0], command)  # noqa: S606 - the worker itself


def _go_inside(shelter: str, supervisor: int) -> None:
    import json
    import site

    from envhub.runtime.sandbox import Protection, confine

    told = json.loads(shelter)
    readable = [Path(path) for path in told["readable"]]
    protection = Protection(**told["protection"])
    confine(protection, scratch=Path.cwd(), readable=readable, supervisor=supervisor)
    site.main()


def _serve(role: str, descriptor: int) -> None:
    # Imported after the fork, so that the guard stays small.
    from envhub.worker.serve import serve

    serve(role, descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
