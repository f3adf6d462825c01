"""Calls, answers, and the entries of the request log."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envhub.testing.hub.faults import Faults
from envhub.testing.hub.store import Store


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
