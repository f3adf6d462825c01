"""A command as at a terminal."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def at_terminal(
    command: Sequence[str | Path], answer: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command as at a terminal, and type an answer to what it asks."""
    master, slave = os.openpty()
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=env
    ) as process:
        os.close(slave)
        os.write(master, answer.encode() + b"\n")
        shown = b""
        with suppress(OSError):  # the other end is closed when the process ends
            while part := os.read(master, 2**16):
                shown += part
        os.close(master)
    return process.returncode, shown.decode().replace("\r\n", "\n")
