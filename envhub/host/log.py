"""The output of a worker: read by the host, kept up to a limit, quoted in errors."""

import os
from pathlib import Path

_KEPT = 8192
"""Bytes of the end of the output, for errors."""

_QUOTED_LINES = 10

_FILE_LIMIT = 2**20
"""Bytes of the beginning of the output, for the file."""

_READ = 2**16


def add_to_log(path: Path | None, text: str) -> None:
    """Add a text to the log of something that runs in this process, up to the limit of logs."""
    if path is None:
        return
    try:
        with path.open("ab") as file:
            file.write(text.encode()[: max(0, _FILE_LIMIT - file.tell())])
    except OSError:  # a full disk, say: not a reason to end the run
        return


class Log:
    """The reading end of a worker's output."""

    def __init__(self, path: Path | None = None) -> None:
        """Make the pipe for the output.

        Args:
            path: A file that gets the first MiB of the output.
        """
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._tail = b""
        self._path = path
        self._room = _FILE_LIMIT if path else 0

    def drain(self) -> bool:
        """Read the output that is available, at most 1 MiB.

        Returns:
            False once the worker has closed its end.
        """
        for _ in range(16):
            try:
                data = os.read(self.read_end, _READ)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._tail = (self._tail + data)[-_KEPT:]
            self._store(data)
        return True

    def keep(self, text: str) -> None:
        """Add a text of the host's to the file, which is not quoted as output."""
        self._store(text.encode())

    def tail(self) -> str:
        """Return the last lines of the output."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return "\n".join(line[:300] for line in lines[-_QUOTED_LINES:])

    def close(self) -> None:
        """Close the ends of the pipe that are still open; harmless when repeated."""
        for fd in (self.read_end, self.write_end):
            if fd >= 0:
                os.close(fd)
        self.read_end = self.write_end = -1

    def hand_over(self) -> None:
        """Close the host's copy of the writing end, once the worker has its own."""
        os.close(self.write_end)
        self.write_end = -1

    def _store(self, data: bytes) -> None:
        if not self._path or self._room <= 0:
            return
        try:
            with self._path.open("ab") as file:
                file.write(data[: self._room])
                self._room -= len(data)
                if self._room <= 0:
                    file.write(b"\n[envhub: output truncated]\n")
        except OSError:  # a full disk, say: not a reason to end the run
            self._room = 0
