"""How each kind of server is spoken to over a WebSocket; `gr00t` has the one over ZeroMQ.

A dialect says what a connection begins with, how a request and a reset are written, and what an
answer means. It is named by the scheme, never guessed from traffic: in one the server speaks first,
in another the client.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from envhub_servers.codec import InvalidMessage, mark_vla_eval, pack, pack_into, unpack
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
    stateless = True
    """Whether a connection may serve one episode after the other."""
    outlives = False
    """Whether a session goes on over another connection."""
    batched = False
    """Whether one request holds all rows that wait."""

    def __init__(self, url: str, actions: str = "actions") -> None:
        """Take what errors need, and the name of the answer's actions, or names: `arm+gripper`."""
        self._url = url
        self._actions = actions
        self._buffer = bytearray()

    def greet(self, link: Link, seconds: float) -> dict[str, Any]:
        """Return what the server says of itself.

        Raises:
            ServerFailed: It says nothing, or something else.
        """
        said = self._read(link, link.receive(seconds), "metadata")
        if not isinstance(said, dict):
            raise self._failed(
                link,
                f"began with a {type(said).__name__} instead of metadata: it is no {self.name} "
                "server.",
            )
        return said

    def begin(self, link: Link, session: str, seconds: float) -> None:
        """Tell the server that an episode begins; openpi's needs no such thing."""

    def end(self, link: Link) -> None:
        """Tell the server that an episode has ended."""

    def ask(self, link: Link, request: Request, session: str) -> None:
        """Send an observation."""
        link.check_silent()
        link.send(pack_into(self._buffer, request))

    def answer(self, link: Link) -> Answer:
        """Wait for the actions.

        Raises:
            ServerFailed: It answers with something else.
        """
        said = self._read(link, link.receive(), "an answer")
        return Answer(self._pick(link, said), _timings(said))

    def _pick(self, link: Link, said: Any) -> Any:
        """Return the actions of an answer: one of its values, or several joined."""
        names = self._actions.split("+")
        if not isinstance(said, dict) or not {*names} <= {*said}:
            found = f"a map of {', '.join(said) or 'nothing'}" if isinstance(said, dict) else said
            raise self._failed(
                link,
                f"answered without {self._actions!r}: {quote(str(found))}. Name the key with "
                "--policy-arg actions=KEY, or several with KEY+KEY.",
            )
        return said[names[0]] if len(names) == 1 else self._joined(link, said, names)

    def _joined(self, link: Link, said: Mapping[str, Any], names: Sequence[str]) -> Any:
        try:
            return np.concatenate([np.asarray(said[name]) for name in names], axis=-1)
        except ValueError as exc:
            shapes = ", ".join(f"{name} {np.shape(said[name])}" for name in names)
            raise self._failed(link, f"sent parts that cannot be joined: {shapes}.") from exc

    def _read(self, link: Link, message: bytes | str, what: str) -> Any:
        if isinstance(message, str):
            raise self._failed(link, f"failed: {quote(message)}")
        try:
            return unpack(message)
        except InvalidMessage as exc:
            said = f"sent something else than {what} of {self.name}: {quote(str(exc))}."
            raise self._failed(link, said) from exc

    def _failed(self, link: Link, said: str) -> ServerFailed:
        """Close the connection: what comes next could be anything."""
        link.close()
        return ServerFailed(f"{self._url} {said}")


class RoboArena(OpenPi):
    """RoboArena: `endpoint` says what is asked; the answer is a bare array, a reset's a text."""

    name = "roboarena"

    def begin(self, link: Link, session: str, seconds: float) -> None:
        """Reset the policy, and wait for the text that says so.

        Raises:
            ServerFailed: It says something else.
        """
        link.check_silent()
        link.send(pack({"endpoint": "reset", "session_id": session}))
        said = link.receive(seconds)
        if not isinstance(said, str) or "Traceback" in said:
            what = quote(said) if isinstance(said, str) else "actions"
            raise self._failed(link, f"answered a reset with {what}.")

    def ask(self, link: Link, request: Request, session: str) -> None:
        """Send an observation."""
        link.check_silent()
        whole = {**request, "endpoint": "infer", "session_id": session}
        link.send(pack_into(self._buffer, whole))

    def _pick(self, link: Link, said: Any) -> Any:
        return said if isinstance(said, np.ndarray) else super()._pick(link, said)


class Vllm(RoboArena):
    """vllm-omni: as RoboArena's, but a new session needs no reset, and an error is a map."""

    name = "vllm"
    outlives = True

    def begin(self, link: Link, session: str, seconds: float) -> None:
        """Do nothing: a session that was not seen before begins an episode."""

    def _pick(self, link: Link, said: Any) -> Any:
        if isinstance(said, dict) and said.get("type") == "error":
            raise self._failed(link, f"failed: {quote(str(said.get('message')))}")
        picked = super()._pick(link, said)
        # Parts have a row for each robot, of which there is one.
        alone = isinstance(picked, np.ndarray) and picked.ndim == 3 and len(picked) == 1
        return picked[0] if alone else picked


class VlaEval(OpenPi):
    """vla-eval: envelopes; the client says hello first; an error is a message."""

    name = "vla-eval"
    stateless = False

    def __init__(self, url: str, actions: str = "actions") -> None:
        super().__init__(url, actions)
        self._numbers = count(1)
        self._asked: dict[int, int] = {}

    def greet(self, link: Link, seconds: float) -> dict[str, Any]:
        """Say hello, and return the server's."""
        self._send(link, "hello", {"harness_version": "0.8.0", "protocol_version": 1})
        kind, _, payload = self._envelope(link, link.receive(seconds), "a hello")
        if kind != "hello":
            raise self._failed(link, f"answered a hello with {kind}.")
        version = payload.get("protocol_version", 1)
        if version != 1:
            raise self._failed(link, f"speaks version {version} of the protocol; known is 1.")
        return payload

    def begin(self, link: Link, session: str, seconds: float) -> None:
        """Say that an episode begins; there is no answer to it."""
        self._send(link, "episode_start", {})

    def end(self, link: Link) -> None:
        """Say that the episode has ended."""
        self._send(link, "episode_end", {})

    def ask(self, link: Link, request: Request, session: str) -> None:
        """Send an observation."""
        link.check_silent()
        self._asked[id(link)] = self._send(link, "observation", request)

    def answer(self, link: Link) -> Answer:
        """Wait for the action."""
        kind, seq, payload = self._envelope(link, link.receive(), "an answer")
        if kind == "error":
            raise self._failed(link, f"failed: {quote(str(payload.get('error', payload)))}")
        if kind != "action" or seq != self._asked.pop(id(link)):
            raise self._failed(link, f"answered an observation with {kind} {seq}.")
        return Answer(self._pick(link, payload))

    def _send(self, link: Link, kind: str, payload: Request) -> int:
        number = next(self._numbers)
        message = {"type": kind, "payload": payload, "seq": number, "timestamp": time.time()}
        link.send(pack(message, mark_vla_eval))
        return number

    def _envelope(
        self, link: Link, message: bytes | str, what: str
    ) -> tuple[str, Any, dict[str, Any]]:
        said = self._read(link, message, what)
        payload = said.get("payload") if isinstance(said, dict) else None
        if not isinstance(payload, dict) or not isinstance(said.get("type"), str):
            raise self._failed(link, f"sent something else than {what} of {self.name}.")
        return quote(said["type"]), said.get("seq"), payload


def _timings(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        return {}
    parts = [said.get(name) for name in ("policy_timing", "server_timing")]
    return {str(k): v for part in parts if isinstance(part, dict) for k, v in part.items()}
