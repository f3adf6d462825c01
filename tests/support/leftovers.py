"""Processes that a test leaves behind: they are its error, and end before the next test begins.

A process belongs to a test if it descends from the process that runs the tests, and was not started
by a fixture of a module or of the session, which lives on.
"""

import os
import signal
import time
from contextlib import suppress

from support.processes import alive, descendants, start_time

GRACE = 10.0
"""Seconds that processes have to end which a test has told to: a guard ends many others first."""

Process = tuple[int, str]
"""A process id, which the kernel uses again, and the time of its start."""


class Leftovers:
    """What descends from this process and may not outlive a test."""

    def __init__(self) -> None:
        self._lasting: set[Process] = set()

    def running(self) -> dict[Process, str]:
        """The command lines of those that are left now."""
        found = {}
        for pid, (_, line) in descendants(os.getpid()).items():
            started = start_time(pid)
            if started and alive(pid) and not _lasts(line):
                found[pid, started] = line
        return {process: line for process, line in found.items() if process not in self._lasting}

    def keep(self, before: dict[Process, str]) -> None:
        """What has begun since then is of a fixture that lives longer than a test."""
        self._lasting |= self.running().keys() - before.keys()

    def end(self) -> list[str]:
        """End them all at once; returns their command lines."""
        lines: dict[Process, str] = {}
        deadline = time.monotonic() + GRACE
        while (left := self.running()) and time.monotonic() < deadline:
            lines |= left
            for pid, _ in left:
                with suppress(OSError):  # it has ended, or is not ours to end
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        return [f"{pid} {line}" for (pid, _), line in lines.items()]

    def wait_and_end(self) -> list[str]:
        """Wait a while for them to end by themselves, then end them; returns the command lines."""
        deadline = time.monotonic() + GRACE
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.end()


def _lasts(line: str) -> bool:
    """Python's own helper, which multiprocessing starts once for a process."""
    return "multiprocessing.resource_tracker" in line
