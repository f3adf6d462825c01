"""How each kind of server is spoken to over a WebSocket.

A dialect says what a connection begins with, how a request and a reset are written, and what an
answer means. It is named by the scheme, never guessed from traffic: in one the server speaks first,
in another the client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envhub_servers.codec import InvalidMessage, pack, unpack
from envhub_servers.links import Link, ServerFailed, quote

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answers to an observation."""

    actions: Any
    timings: Mapping[str, Any] = field(default_factory=dict)
    """What it says of its own time, in milliseconds."""


class OpenPi:
    """openpi: the server's map first; then a map for a map; an error is a text, then the end."""

    name = "openpi"
    port = 8000
    path = ""
    stateless = True
    """Whether a connection may serve one episode after the other."""
    outlives = False
    """Whether a session goes on over another connection."""

    def __init__(self, url: str, actions: str = "actions") -> None:
        """Take what is needed for errors, and the name of the answer's actions."""
        self._url = url
        self._actions = actions

    def greet(self, link: Link, seconds: float) -> dict[str, Any]:
        """Return what the server says of itself.

        Raises:
            ServerFailed: It says nothing, or something else.
        """
        said = self._read(link, link.receive(seconds), "metadata")
        if not isinstance(said, dict):
            link.close()
            raise ServerFailed(
                f"{self._url} began with a {type(said).__name__} instead of metadata: it is no "
                f"{self.name} server."
            )
        return said

    def begin(self, link: Link, session: str) -> None:
        """Tell the server that an episode begins; openpi's needs no such thing."""

    def ask(self, link: Link, request: Request, session: str) -> None:
        """Send an observation."""
        link.check_silent()
        link.send(pack(request))

    def answer(self, link: Link) -> Answer:
        """Wait for the actions.

        Raises:
            ServerFailed: It answers with something else.
        """
        said = self._read(link, link.receive(), "an answer")
        if not isinstance(said, dict) or self._actions not in said:
            found = f"a map of {', '.join(said) or 'nothing'}" if isinstance(said, dict) else said
            link.close()
            raise ServerFailed(
                f"{self._url} answered without {self._actions!r}: {quote(str(found))}. Name the "
                "key with --policy-arg actions=KEY."
            )
        return Answer(said[self._actions], _timings(said))

    def _read(self, link: Link, message: bytes | str, what: str) -> Any:
        if isinstance(message, str):
            link.close()
            raise ServerFailed(f"{self._url} failed: {quote(message)}")
        try:
            return unpack(message)
        except InvalidMessage as exc:
            link.close()
            raise ServerFailed(
                f"{self._url} sent something else than {what} of {self.name}: {quote(str(exc))}."
            ) from exc


def _timings(said: Mapping[str, Any]) -> dict[str, Any]:
    parts = [said.get(name) for name in ("policy_timing", "server_timing")]
    return {str(k): v for part in parts if isinstance(part, dict) for k, v in part.items()}
