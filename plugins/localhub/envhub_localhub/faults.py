"""The faults that a Hub can have, and those that are active.

Some faults are lies about content, in every answer until the fault is removed. The others happen to
requests whose path matches a pattern, always or a number of times.
"""

import re
import threading
from dataclasses import dataclass
from typing import Literal, TypeVar

# The requests for a repository's content, which a gated repository refuses.
_CONTENT = r"/resolve/|/large-files/download/|/info/refs$|/git-upload-pack$"


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """A file is served with wrong bytes, but of the right size."""

    path: str


@dataclass(frozen=True, slots=True)
class OtherCommit:
    """A request for a commit by its full id is answered with another commit, under its own id."""

    commit: str


@dataclass(frozen=True, slots=True)
class Symlink:
    """The listing and the bytes of a path are those of a symbolic link, whatever is committed.

    Git still shows the committed file: for a link that git shows too, commit a `Link`.
    """

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class WrongTree:
    """Listings have wrong blob ids: for one path, or for all."""

    path: str | None = None


@dataclass(frozen=True, slots=True)
class WrongSize:
    """Listings give another size of a file."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class MoreBytes:
    """A file comes with more bytes than it has."""

    path: str
    more: int = 1


@dataclass(frozen=True, slots=True)
class Status:
    """Requests are answered with a status and not processed."""

    code: int
    matching: str = ""
    """A regular expression that is searched in the path of the request."""
    error_code: str | None = None
    """The value of `X-Error-Code`, e.g. `RepoNotFound`."""
    times: int | None = None
    """How many requests are affected; None: all."""


@dataclass(frozen=True, slots=True)
class Gated:
    """Content is gated, and the Hub's own token has no access either."""

    matching: str = _CONTENT
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """Answers are delayed."""

    seconds: float
    matching: str = ""
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends in the middle of an answer's body."""

    after_bytes: int
    matching: str = "/resolve/"
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """Requests are sent on to the same path of another server."""

    to: str
    """The address of the server, as an endpoint is written."""
    matching: str = ""
    code: int = 302
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """Answers carry a header with another value than they should."""

    name: str
    value: str
    matching: str = ""
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Endless:
    """An answer never ends, until the client hangs up."""

    matching: str = ""
    pause: float = 0.0
    """Seconds between two bytes; 0 for as many bytes as the connection takes."""
    part: Literal["head", "body"] = "body"
    """Whether the body follows itself with spaces, or nothing but interim answers ever comes."""
    times: int | None = None


Lie = WrongBytes | OtherCommit | Symlink | WrongTree | WrongSize | MoreBytes
Accident = Status | Gated | Slow | Cut | Redirect | Header | Endless
Fault = Lie | Accident

_Lie = TypeVar("_Lie", WrongBytes, OtherCommit, Symlink, WrongTree, WrongSize, MoreBytes)
_Accident = TypeVar("_Accident", Status, Gated, Slow, Cut, Redirect, Header, Endless)


class Faults:
    """The active faults of a Hub, oldest first."""

    def __init__(self) -> None:
        self._active: list[_Active] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Activate a fault."""
        times = None if isinstance(fault, Lie) else fault.times
        with self._lock:
            self._active.append(_Active(fault, times))

    def remove(self, fault: Fault) -> None:
        """Deactivate a fault; harmless if it is not active."""
        with self._lock:
            self._active = [active for active in self._active if active.fault is not fault]

    def clear(self) -> None:
        """Deactivate all faults."""
        with self._lock:
            self._active = []

    def lies(self, kind: type[_Lie]) -> list[_Lie]:
        """Return the active lies of one kind."""
        with self._lock:
            return [active.fault for active in self._active if isinstance(active.fault, kind)]

    def falsify(self, path: str, data: bytes) -> bytes:
        """Apply the lies about a file's bytes."""
        if any(lie.path == path for lie in self.lies(WrongBytes)):
            return bytes(byte ^ 1 for byte in data)
        return data + bytes(sum(lie.more for lie in self.lies(MoreBytes) if lie.path == path))

    def happens(self, kind: type[_Accident], path: str) -> _Accident | None:
        """Return the first active fault of a kind that matches a request's path, and count it."""
        with self._lock:
            for active in self._active:
                fault = active.fault
                if isinstance(fault, kind) and active.left != 0 and re.search(fault.matching, path):
                    active.left = None if active.left is None else active.left - 1
                    return fault
        return None


@dataclass(slots=True)
class _Active:
    fault: Fault
    left: int | None
