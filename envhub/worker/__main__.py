"""A worker process: `python -m envhub.worker env|policy DESCRIPTOR HOST_PID SCRATCH`."""

import sys
from pathlib import Path

from envhub.worker.guard import stand_guard


def main(arguments: list[str]) -> None:
    """Serve one host until it closes the channel."""
    role, descriptor, host_pid, scratch = arguments
    stand_guard(int(host_pid), Path(scratch) if scratch else None)
    # Imported after the fork, so that the guard stays small.
    from envhub.worker.serve import serve

    serve(role, int(descriptor))


if __name__ == "__main__":
    main(sys.argv[1:])
