"""How a Hub can misbehave, and what it does so at present.

Some faults are lies about content, told in every answer until they are taken back. The others
happen to requests whose path matches a pattern, for ever or a number of times.
"""

import re
import threading
from dataclasses import dataclass
from typing import Literal, TypeVar

# What a Hub keeps from people who may not have a repository's content.
_CONTENT = r"/resolve/|/info/refs$|/git-upload-pack$"


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """A file comes with other bytes of the same number."""

    path: str


@dataclass(frozen=True, slots=True)
class OtherCommit:
    """Whoever asks for a commit by its full id gets another one, named as such."""

    commit: str


@dataclass(frozen=True, slots=True)
class Symlink:
    """The listing and the bytes of a path are those of a symbolic link, whatever is committed.

    Git shows what is committed: for a link that it shows too, commit a `Link`.
    """

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class WrongTree:
    """Listings give other blob ids than those of the files: of one path, or of all."""

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
    """Requests are answered with a status, and nothing else is done."""

    code: int
    matching: str = ""
    """A regular expression, looked for in the path of the request."""
    error_code: str | None = None
    """What `X-Error-Code` says, e.g. `RepoNotFound`."""
    times: int | None = None
    """How many requests it happens to; None for all."""


@dataclass(frozen=True, slots=True)
class Gated:
    """Content is for people who asked for it and were let in: not for this token either."""

    matching: str = _CONTENT
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """Answers come late."""

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
    """The faults of a Hub at present, oldest first."""

    def __init__(self) -> None:
        self._active: list[_Active] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Begin to misbehave."""
        times = None if isinstance(fault, Lie) else fault.times
        with self._lock:
            self._active.append(_Active(fault, times))

    def remove(self, fault: Fault) -> None:
        """Stop to misbehave in one way; harmless if that is over."""
        with self._lock:
            self._active = [active for active in self._active if active.fault is not fault]

    def clear(self) -> None:
        """Behave."""
        with self._lock:
            self._active = []

    def lies(self, kind: type[_Lie]) -> list[_Lie]:
        """All that are told at present, of one kind."""
        with self._lock:
            return [active.fault for active in self._active if isinstance(active.fault, kind)]

    def happens(self, kind: type[_Accident], path: str) -> _Accident | None:
        """The first of a kind that matches a request's path; it counts as one time."""
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
