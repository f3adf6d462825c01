"""Start a worker in a sandbox, and become its guard.

    python -m envhub.worker.launch HOST_PID SCRATCH SUPERVISOR MEMORY_MB COMMAND ...

The command runs `envhub.worker` in the sandbox. It is started first of all: that takes its time,
while this process imports what a guard needs. Until then nothing is lost: `process.spawn` blocks
the signals that a guard waits for.
"""

import os
import sys

from envhub.runtime.limits import limit


def launch(arguments: list[str]) -> None:
    """Start the command; does not return."""
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


if __name__ == "__main__":
    launch(sys.argv[1:])
