"""What goes in and out: calls and answers, and the log's line for one."""

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
    """Without percent signs."""
    query: str
    authorized: bool
    """Whether it came with the Hub's token."""
    token: str | None = field(repr=False)
    """What it gave as a token, right or wrong."""
    range: str | None
    """The part of a file that it asked for, e.g. `bytes=7-`."""
    status: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and the Hub that it was made to."""

    method: str
    path: str
    """Without percent signs, for people."""
    quoted: str
    """The path as it was sent: a revision may hold `%2F`."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes
    token: str | None
    authorized: bool
    endpoint: str
    store: Store
    faults: Faults

    def option(self, name: str) -> bool:
        """Whether a yes-or-no question of the query is answered with yes."""
        return self.query.get(name, [""])[-1].lower() in ("true", "1")

    def json(self) -> Any:
        """The body.

        Raises:
            Refused: It is no JSON.
        """
        try:
            return json.loads(self.body or b"{}")
        except ValueError as exc:
            raise Refused(400, "The body is no JSON.") from exc


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A call that gets an error for an answer.

    Attributes:
        answer: It, with the headers by which the client chooses its exception.
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
        # A message may quote what was asked for; a header is one line of ASCII.
        line = " ".join(message.split()).encode("ascii", "replace").decode()
        shown = {"X-Error-Message": line, **(headers or {})}
        if code is not None:
            shown["X-Error-Code"] = code
        self.answer = json_answer({"error": message}, status=status, headers=shown)


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer in JSON."""
    content = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Answer(status, json.dumps(value).encode(), content)
