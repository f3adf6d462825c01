"""Connections to policy servers. What comes in is bounded: its size, and how much waits unread.

There are no pings: openpi's server computes on its event loop, and answers none meanwhile. How long
an answer may take is the limit `act` of the run, whose end ends this process and its connections.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Protocol

from envhub.errors import ContractError, one_line
from envhub_servers.address import KEY, Address
from envhub_servers.codec import MAX_MESSAGE

_SHOWN = 300
"""Characters of a server's text that an error shows."""
_RETRY = 0.5
"""Seconds between two attempts to reach a server that was there before."""


class ServerFailed(ContractError):
    """The server did not do what its dialect says; its connection is closed."""


class Link(Protocol):
    """A connection that carries messages."""

    def send(self, message: bytes | bytearray) -> None:
        """Send a message."""
        ...

    def receive(self, seconds: float | None = None) -> bytes | str:
        """Wait for a message; None: as long as it takes."""
        ...

    def check_silent(self) -> None:
        """Refuse a message that nobody asked for: it would be taken for the next answer."""
        ...

    def ping(self, seconds: float) -> float | None:
        """Return the milliseconds of a round trip; None: there is no such thing."""
        ...

    @property
    def open(self) -> bool:
        """Whether the server has not closed it."""
        ...

    def close(self) -> None:
        """Close it, without waiting for the server."""
        ...


def quote(text: str) -> str:
    """Return the last line of a server's text, cut and printable."""
    lines = [line for line in text[-20_000:].splitlines() if line.strip()]
    last = one_line(lines[-1].strip()) if lines else "(nothing)"
    return last if len(last) <= _SHOWN else f"{last[:_SHOWN]}..."


class WebSocket:
    """A connection of the library websockets."""

    def __init__(self, address: Address, seconds: float) -> None:
        """Connect.

        Args:
            address: Of the server.
            seconds: After which it is not there.

        Raises:
            ServerFailed: It is not there, or is no WebSocket server.
        """
        from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidURI
        from websockets.sync.client import connect

        self._url = address.url
        key = os.environ.get(KEY)
        self._stack = ExitStack()
        try:
            self._socket: Any = self._stack.enter_context(
                connect(
                    self._url,
                    compression=None,
                    additional_headers={"Authorization": f"Api-Key {key}"} if key else None,
                    proxy=None,
                    open_timeout=seconds,
                    ping_interval=None,
                    close_timeout=1,
                    max_size=MAX_MESSAGE,
                    max_queue=1,
                )
            )
        except TimeoutError as exc:
            raise ServerFailed(f"{self._url} did not answer within {seconds:g} s.") from exc
        except OSError as exc:
            problem = exc.strerror or str(exc)
            raise ServerFailed(
                f"Nothing answers at {self._url}: {quote(problem)}. Start the server, or correct "
                "the address."
            ) from exc
        except (InvalidHandshake, InvalidMessage, InvalidURI) as exc:
            advice = (
                f" Put its API key into {KEY}." if "401" in str(exc) or "403" in str(exc) else ""
            )
            problem = quote(str(exc)).rstrip(".")
            raise ServerFailed(f"{self._url} refuses the connection: {problem}.{advice}") from exc

    def send(self, message: bytes | bytearray) -> None:
        """Send a message."""
        self._call(lambda: self._socket.send(message))

    def receive(self, seconds: float | None = None) -> bytes | str:
        """Wait for a message."""
        try:
            received: bytes | str = self._call(lambda: self._socket.recv(timeout=seconds))
        except TimeoutError as exc:
            self.close()
            raise ServerFailed(f"{self._url} was silent for {seconds:g} s.") from exc
        return received

    def check_silent(self) -> None:
        """Refuse a message that nobody asked for."""
        with suppress(TimeoutError):
            self._call(lambda: self._socket.recv(timeout=0))
            self.close()
            raise ServerFailed(
                f"{self._url} sent a message that nobody asked for, so its answers cannot be told "
                "apart. Is it a server of this dialect?"
            )

    def ping(self, seconds: float) -> float | None:
        """Return the milliseconds until the server has answered a ping."""
        began = time.monotonic()
        if not self._call(self._socket.ping).wait(seconds):
            return None
        return 1000 * (time.monotonic() - began)

    @property
    def open(self) -> bool:
        """Whether the server has not closed it."""
        return bool(self._socket.state.name == "OPEN")

    def close(self) -> None:
        """Close it: politely for a second, then hard."""
        self._stack.close()

    def _call(self, function: Callable[[], Any]) -> Any:
        from websockets.exceptions import ConnectionClosed

        try:
            return function()
        except ConnectionClosed as exc:
            self.close()
            raise ServerFailed(f"{self._url} closed the connection: {_why(exc)}.") from exc


def _why(closed: Any) -> str:
    """Say why a connection was closed, by either side."""
    frame = closed.sent if closed.rcvd is None else closed.rcvd
    if frame is None:
        return "it broke off"
    if frame.code == 1009:
        return f"a message was larger than {MAX_MESSAGE // 2**20} MiB"
    reason = f" ({quote(frame.reason)})" if frame.reason else ""
    return f"code {int(frame.code)}{reason}"


def reach(connect: Callable[[], Any], seconds: float) -> Any:
    """Connect to a server that was there before, and may be about to be there again.

    Args:
        connect: Connects, or raises `ServerFailed`.
        seconds: For how long it is tried.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return connect()
        except ServerFailed:
            if time.monotonic() + _RETRY >= end:
                raise
            time.sleep(_RETRY)
