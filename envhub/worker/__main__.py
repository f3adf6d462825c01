"""A worker process: `python -m envhub.worker DESCRIPTOR HOST_PID`."""

import sys

from envhub.worker.guard import stand_guard


def main(arguments: list[str]) -> None:
    """Serve one host until it closes the channel."""
    descriptor, host_pid = (int(argument) for argument in arguments)
    stand_guard(host_pid)
    # Imported after the fork, so that the guard stays small.
    from envhub.worker.serve import serve

    serve(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
