"""GR00T's inference service: msgpack over ZeroMQ, one request at a time, with a row per episode."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from envhub_servers.address import KEY, Address
from envhub_servers.codec import MAX_MESSAGE, mark_gr00t, pack
from envhub_servers.dialects import Answer, OpenPi, Request
from envhub_servers.links import Link, ServerFailed, quote


class ZeroMq:
    """A REQ socket. It notices no server that ends: then the limit `act` of the run does."""

    def __init__(self, address: Address, seconds: float) -> None:
        """Connect, which waits for nothing.

        Args:
            address: Of the server.
            seconds: Unused: the first answer is waited for.
        """
        zmq: Any = import_module("zmq")
        self._url = address.url
        self._context: Any = zmq.Context()
        self._socket: Any = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        self._socket.connect(address.url)

    def send(self, message: bytes | bytearray) -> None:
        """Send a message."""
        self._socket.send(message)

    def receive(self, seconds: float | None = None) -> bytes | str:
        """Wait for a message."""
        if not self._socket.poll(None if seconds is None else int(1000 * seconds)):
            self.close()
            raise ServerFailed(f"{self._url} was silent for {seconds:g} s.")
        parts: list[bytes] = self._socket.recv_multipart()
        return b"".join(parts)

    def check_silent(self) -> None:
        """Do nothing: the socket drops what nobody asked for."""

    def ping(self, seconds: float) -> None:
        """Do nothing: a socket of ZeroMQ has no pings of its own."""

    @property
    def open(self) -> bool:
        """Whether it was not closed here."""
        return not self._socket.closed

    def close(self) -> None:
        """Close it."""
        self._socket.close()
        self._context.term()


class Gr00t(OpenPi):
    """GR00T N1.7: endpoints; nested observations with axes for rows and time; `[action, info]`."""

    name = "gr00t"
    batched = True

    def __init__(self, url: str, actions: str = "actions") -> None:
        super().__init__(url, actions)
        self._token = os.environ.get(KEY)

    def greet(self, link: Link, seconds: float) -> dict[str, Any]:
        """Return what the policy reads and does, by the server's `get_modality_config`."""
        said = self._call(link, "get_modality_config", None, seconds)
        if not isinstance(said, dict):
            raise self._failed(link, "answered get_modality_config with something else than a map.")
        if self._actions == "actions":
            self._actions = "+".join(_action_keys(said)) or self._actions
        return said

    def begin(self, link: Link, session: str, seconds: float) -> None:
        """Reset the policy."""
        self._call(link, "reset", {"options": None}, seconds)

    def ask_together(self, link: Link, requests: Sequence[Request]) -> None:
        """Send the observations of all rows."""
        observation = _stacked(requests)
        self._send(link, "get_action", {"observation": observation, "options": None})

    def answers(self, link: Link, rows: int) -> list[Answer]:
        """Wait for the actions of all rows.

        Raises:
            ServerFailed: It answers with something else.
        """
        said = self._checked(link, self._read(link, link.receive(), "an answer"))
        if not isinstance(said, list) or len(said) != 2:
            raise self._failed(link, "answered without [action, info].")
        actions = np.asarray(self._pick(link, said[0]))
        if actions.ndim != 3 or len(actions) != rows:
            raise self._failed(
                link, f"sent actions of shape {actions.shape} for {rows} observations."
            )
        return [Answer(row) for row in actions]

    def _call(self, link: Link, endpoint: str, data: Any, seconds: float) -> Any:
        self._send(link, endpoint, data)
        return self._checked(link, self._read(link, link.receive(seconds), "an answer"))

    def _send(self, link: Link, endpoint: str, data: Any) -> None:
        request = {"endpoint": endpoint, **({} if data is None else {"data": data})}
        if self._token:
            request["api_token"] = self._token
        link.send(pack(request, mark_gr00t))

    def _checked(self, link: Link, said: Any) -> Any:
        if isinstance(said, dict) and "error" in said:
            raise self._failed(link, f"failed: {quote(str(said['error']))}")
        return said


def _action_keys(said: dict[str, Any]) -> list[str]:
    """Return the parts of an action, in their order."""
    part = said.get("action")
    config = part.get("as_json", part) if isinstance(part, dict) else {}
    keys = config.get("modality_keys", []) if isinstance(config, dict) else []
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _stacked(requests: Sequence[Request]) -> Request:
    """Join the values of all rows; arrays get an axis for the row and one for the time."""
    first = requests[0]
    joined: Request = {}
    for key, value in first.items():
        values = [request[key] for request in requests]
        if isinstance(value, dict):
            joined[key] = _stacked(values)
        elif isinstance(value, str):
            joined[key] = [[text] for text in values]
        else:
            rows = np.stack([np.atleast_1d(row) for row in values])[:, None]
            joined[key] = rows.astype(np.float32) if rows.dtype == np.float64 else rows
    return joined
