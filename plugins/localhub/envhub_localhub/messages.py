"""Calls, answers, and the entries of the request log."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envhub_localhub.faults import Faults
from envhub_localhub.store import Store

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was made, and the status of its answer."""

    method: str
    path: str
    """Unquoted."""
    query: str
    authorized: bool
    """Whether the request had the Hub's token."""
    token: str | None = field(repr=False)
    """The token of the request, right or wrong."""
    range: str | None
    """The requested part of a file, e.g. `bytes=7-`."""
    status: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and the Hub that received it."""

    method: str
    path: str
    """Unquoted, for people."""
    quoted: str
    """The path as it was sent: a revision may contain `%2F`."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes
    token: str | None
    authorized: bool
    endpoint: str
    storage: str
    """The address of the server that has the large files."""
    store: Store
    faults: Faults

    def option(self, name: str) -> bool:
        """Whether an option of the query is true."""
        return self.query.get(name, [""])[-1].lower() in ("true", "1")

    def json(self) -> Any:
        """Return the decoded body.

        Raises:
            Refused: The body is not JSON.
        """
        try:
            return json.loads(self.body or b"{}")
        except ValueError as exc:
            raise Refused(400, "The body is not JSON.") from exc


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A call that is answered with an error.

    Attributes:
        answer: The answer, with the headers that select the client's exception.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        # A message may quote the request, but a header is one line of ASCII.
        line = " ".join(message.split()).encode("ascii", "replace").decode()
        shown = {"X-Error-Message": line, **(headers or {})}
        if code is not None:
            shown["X-Error-Code"] = code
        self.answer = json_answer({"error": message}, status=status, headers=shown)


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an answer in JSON."""
    content = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Answer(status, json.dumps(value).encode(), content)


def file_answer(call: Call, data: bytes, headers: Mapping[str, str]) -> Answer:
    """Return a file, or the part of it that the request asks for."""
    shown = {
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
        **headers,
    }
    limits = _RANGE.fullmatch(call.headers.get("range", ""))
    if limits is None:
        return Answer(200, data, shown)
    start, end = int(limits[1]), min(int(limits[2] or len(data)) + 1, len(data))
    if start >= end:
        raise Refused(416, "No such range", headers={"Content-Range": f"bytes */{len(data)}"})
    shown["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
    return Answer(206, data[start:end], shown)
