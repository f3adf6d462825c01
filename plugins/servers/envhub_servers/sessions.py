"""The protocols that `envhub serve` speaks: what each says first, answers, and how it fails."""

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from envhub.wire.values import Array
from envhub_servers.codec import InvalidMessage, mark_vla_eval, pack
from envhub_servers.hosting import HostedPolicy
from envhub_servers.pictures import is_picture


class Acting(Protocol):
    """The episodes of one connection."""

    def end(self) -> None:
        """End the episode under way."""
        ...

    async def act(self, request: dict[str, Any]) -> tuple[Array, float]:
        """Return the actions for a request, and the seconds that the policy took."""
        ...


class Session(Protocol):
    """One connection, as a protocol has it."""

    ends_on_failure: bool

    def greet(self) -> bytes | None:
        """Return what the server says first; None: the client does."""
        ...

    async def answer(self, said: dict[str, Any]) -> bytes | str | None:
        """Answer a message; None: it needs no answer."""
        ...

    def fail(self, told: str) -> bytes | str:
        """Return what is sent if a message failed."""
        ...


class OpenPiSession:
    """openpi: a map for a map; an error is a text, and the end."""

    ends_on_failure = True

    def __init__(self, episodes: Acting, told: Mapping[str, Any], policy: HostedPolicy) -> None:
        self._episodes = episodes
        self._told = told

    def greet(self) -> bytes:
        """Say what is served, under a key that only EnvHub's client reads."""
        return pack({"envhub": self._told})

    async def answer(self, said: dict[str, Any]) -> bytes | str:
        """Answer an observation."""
        since = time.monotonic()
        actions, seconds = await self._episodes.act(said)
        whole = 1000 * (time.monotonic() - since)
        timing = {
            "policy_timing": {"infer_ms": 1000 * seconds},
            "server_timing": {"total_ms": whole},
        }
        return pack({"actions": actions, **timing})

    def fail(self, told: str) -> str:
        """Send the sentence as a text."""
        return told


class RoboArenaSession(OpenPiSession):
    """RoboArena: `endpoint` says what is asked; the answer is a bare array."""

    def __init__(self, episodes: Acting, told: Mapping[str, Any], policy: HostedPolicy) -> None:
        super().__init__(episodes, told, policy)
        pictures = {
            leaf.path: leaf
            for leaf in policy.leaves
            if leaf.dtype and is_picture(leaf.shape, leaf.dtype)
        }
        wrist = [path for path in pictures if "wrist" in path]
        first = next(iter(pictures.values()), None)
        self._config = {
            "image_resolution": None if first is None else first.shape[:2],
            "needs_wrist_camera": bool(wrist),
            "n_external_cameras": len(pictures) - len(wrist),
            "needs_stereo_camera": False,
            "needs_session_id": False,
            "action_space": str(policy.facts.conventions.get("control", "joint_position")),
        }

    def greet(self) -> bytes:
        """Send the fields of `PolicyServerConfig`."""
        return pack(self._config)

    async def answer(self, said: dict[str, Any]) -> bytes | str:
        """Answer an observation or a reset."""
        endpoint = said.pop("endpoint", None)
        said.pop("session_id", None)
        if endpoint == "reset":
            self._episodes.end()
            return "reset successful"
        if endpoint != "infer":
            raise InvalidMessage("endpoint must be 'infer' or 'reset'")
        actions, _ = await self._episodes.act(said)
        return pack(actions)


class VlaEvalSession:
    """vla-eval: envelopes; the client says hello first; one action for an observation."""

    ends_on_failure = False

    def __init__(self, episodes: Acting, told: Mapping[str, Any], policy: HostedPolicy) -> None:
        self._episodes = episodes
        self._told = told
        self._planned: list[Array] = []
        self._seq = 0

    def greet(self) -> None:
        """Wait for the client's hello."""

    async def answer(self, said: dict[str, Any]) -> bytes | None:
        """Answer a message by its type."""
        kind, payload = said.get("type"), said.get("payload")
        seq = said.get("seq")
        self._seq = seq if type(seq) is int else 0
        if not isinstance(payload, dict):
            raise InvalidMessage("it is no envelope of vla-eval")
        match kind:
            case "hello":
                hello = {"harness_version": "0.8.0", "protocol_version": 1, "capabilities": {}}
                return self._envelope(
                    "hello", {**hello, "model_server": "envhub", "envhub": self._told}
                )
            case "observation":
                return self._envelope("action", {"actions": await self._next(payload)})
            case "episode_start" | "episode_end":
                self._planned = []
                self._episodes.end()
                return None
            case "error":
                return None
        raise InvalidMessage(f"it has the type {kind!r:.40}")

    def fail(self, told: str) -> bytes:
        """Send an error as a message; the connection stays."""
        return self._envelope("error", {"error": told})

    async def _next(self, observation: dict[str, Any]) -> Array:
        """Return the next action: one that is planned, or the first of the policy's answer."""
        if not self._planned:
            actions, _ = await self._episodes.act(observation)
            self._planned = list(actions)
        return np.asarray(self._planned.pop(0))

    def _envelope(self, kind: str, payload: dict[str, Any]) -> bytes:
        message = {"type": kind, "payload": payload, "seq": self._seq, "timestamp": time.time()}
        return pack(message, mark_vla_eval)


PROTOCOLS: Mapping[str, Any] = {
    "openpi": OpenPiSession,
    "roboarena": RoboArenaSession,
    "vla-eval": VlaEvalSession,
}
