"""Start a worker in a sandbox, and become its guard.

The worker is started first of all, which takes its time; meanwhile this process imports what a
guard needs. Nothing is lost until then: `process.spawn` blocks the signals that a guard waits for.
"""

import os

from envhub.runtime.limits import limit


def launch(arguments: list[str]) -> None:
    """Start a command that runs `envhub.worker` in the sandbox; does not return.

    Args:
        arguments: The host's pid, the scratch directory, the descriptor of the guard's end of the
            supervisor's socket, the bound of memory in MB or nothing, and the command.
    """
    host_pid, scratch, supervisor, memory_mb, *command = arguments
    memory = int(memory_mb) if memory_mb else None
    worker_pid = os.fork()
    if worker_pid == 0:
        os.setpgid(0, 0)
        os.set_inheritable(int(supervisor), False)  # the guard's own end
        limit(memory)
        os.execv(command[0], command)  # noqa: S606 - the worker itself
    from envhub.worker.guard import Watch, guard

    guard(worker_pid, int(host_pid), scratch, Watch(int(supervisor), memory))
