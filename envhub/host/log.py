"""What a worker prints: drained by the host, kept up to a cap, quoted in errors."""

import os
from pathlib import Path

_KEPT = 8192

_QUOTED_LINES = 10

_FILE_CAP = 2**20

_READ = 2**16


class Log:
    """The reading end of a worker's output."""

    def __init__(self, path: Path | None = None) -> None:
        """Make the pipe.

        Args:
            path: A file that gets the first MiB of the output.
        """
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._tail = b""
        self._path = path
        self._room = _FILE_CAP if path else 0

    def drain(self) -> bool:
        """Take what is there, at most a few pipes' worth; False once the other side has closed."""
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

    def tail(self) -> str:
        """The last lines."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return "\n".join(line[:300] for line in lines[-_QUOTED_LINES:])

    def close(self) -> None:
        """Close what is still open; harmless when repeated."""
        for fd in (self.read_end, self.write_end):
            if fd >= 0:
                os.close(fd)
        self.read_end = self.write_end = -1

    def hand_over(self) -> None:
        """The worker has its end now; close ours."""
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
                    file.write(b"\n[envhub: the output goes on; it is cut here]\n")
        except OSError:  # a full disk, say: what was printed is not worth a run
            self._room = 0
