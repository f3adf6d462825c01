"""Whether the benchmark's code uses the network or writes outside its scratch. In the worker.

The interpreter reports these attempts to audit hooks, also if a sandbox lets none of them succeed.
Only Python's own functions report; what a library does by itself shows in the sandbox.
"""

import os
import sys
from typing import Any

from envhub.worker.check.notes import Notes
from envhub.worker.check.subject import Subject

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGING = {"os.mkdir": 0, "os.remove": 0, "os.rmdir": 0, "os.rename": 1, "os.symlink": 1}
"""Events of changes to the file system, and which of their arguments is the path."""
_FREE = ("/dev/", "/proc/")
_OWN = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
"""Variables of a worker that name directories it may write to."""

_written: dict[str, None] = {}
_connected: dict[str, None] = {}


def start_watching() -> None:
    """Note accesses from now on; a hook stays until the process ends."""
    sys.addaudithook(_note)


def inspect_accesses(subject: Subject, notes: Notes) -> None:
    """Judge what was noted since the benchmark was loaded."""
    connected, written = [*_connected], [*_written]
    found = f"The code connects to {', '.join(connected[:3])}." if connected else None
    notes.judge("no-network", found)
    found = f"The code writes {', '.join(written[:3])}." if written else None
    notes.judge("writes-scratch", found)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, mode, flags = arguments
        writes = any(c in mode for c in "wax+") if mode else bool(flags or 0) and flags & _WRITING
        if writes:
            _note_path(path)
    elif event in _CHANGING:
        _note_path(arguments[_CHANGING[event]])
    elif event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple):
            _connected[f"{address[0]}:{address[1]}"] = None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        _connected[str(arguments[0])] = None


def _note_path(path: Any) -> None:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or "__pycache__" in path:
        return
    full = os.path.realpath(path)
    own = [os.path.realpath(os.environ[name]) for name in _OWN if os.environ.get(name)]
    if not f"{full}/".startswith((*(f"{place}/" for place in own), *_FREE)):
        _written[full] = None
