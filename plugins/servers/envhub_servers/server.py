"""`envhub serve`: the event loop, which reads requests, and leaves the policy to its own thread.

What a client sends is bounded in size, parts and time, and checked before it reaches the policy. A
client can only ask for actions: nothing that it says changes the server.
"""

import asyncio
import hmac
import http
import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from typing import Any

import numpy as np

from envhub import __version__
from envhub.errors import ContractError, EnvHubError, UsageError, printable
from envhub.wire.messages import BatchRow
from envhub.wire.values import Array
from envhub_servers.address import KEY, Address
from envhub_servers.codec import InvalidMessage, unpack
from envhub_servers.hosting import HostedPolicy, Slot
from envhub_servers.inference import Ask, Inference
from envhub_servers.reading import Reading, make_context, read_context
from envhub_servers.sessions import PROTOCOLS, Session

MAX_CONNECTIONS = 64
"""Connections at one time; each has the memory of one observation, and one request under way."""
IDLE = 600.0
"""Seconds after which a connection that asks for nothing is closed."""
_HANDSHAKE = 10.0
_PARTS = 10_000
"""Keys, values and items of one request."""
_CLOSE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where the server listens, and what it speaks."""

    host: str = "127.0.0.1"
    port: int = 8000
    protocol: str = "openpi"


class Server:
    """Serves a policy until it is told to end."""

    def __init__(self, policy: HostedPolicy, reading: Reading, listen: Listen) -> None:
        self._policy = policy
        self._reading = reading
        self._listen = listen
        self._inference = Inference(policy)
        self._key = os.environ.get(KEY)
        self._free = list(range(MAX_CONNECTIONS))
        self._numbers = itertools.count()
        self._end = asyncio.Event()
        observed = sum(leaf.nbytes for leaf in policy.leaves)
        self._most = min(4 * observed + 2**20, 64 * 2**20)

    async def run(self, ready: Callable[[int], object]) -> None:
        """Serve until SIGTERM or SIGINT.

        Args:
            ready: Called with the port, once the server listens.

        Raises:
            UsageError: The address cannot be listened at.
        """
        from websockets.asyncio.server import serve

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end.set)
        try:
            server = await serve(
                self._handle,
                self._listen.host,
                self._listen.port,
                process_request=self._admit,
                origins=[None],  # a page in a browser of this machine has one
                compression=None,
                open_timeout=_HANDSHAKE,
                ping_interval=None,
                close_timeout=_CLOSE,
                max_size=self._most,
                max_queue=1,
            )
        except OSError as exc:
            where = f"{self._listen.host}:{self._listen.port}"
            raise UsageError(f"{where} cannot be listened at: {exc.strerror or exc}.") from exc
        try:
            ready(next(iter(server.sockets)).getsockname()[1])
            await self._end.wait()
        finally:
            server.close()
            await server.wait_closed()
            await asyncio.to_thread(self._inference.close)

    def metadata(self) -> dict[str, Any]:
        """Return what EnvHub's own client needs to know; the same as long as the policy is."""
        policy = self._policy
        return {
            "version": __version__,
            "contexts": policy.facts.reproducible,
            "benchmark": policy.benchmark.name,
            "policy": policy.digest,
            "format": "raw" if policy.converted is None else "converted",
            "reads": [leaf.path for leaf in policy.leaves],
            "keys": self._reading.text,
            "actions": list(policy.action.shape or ()),
            "batch": policy.facts.batch,
            "conventions": dict(policy.facts.conventions),
            "instructions": dict(policy.facts.instructions),
            "about": dict(policy.facts.about),
        }

    def _admit(self, connection: Any, request: Any) -> Any:
        """Answer health checks, and refuse who has not the key or comes too many."""
        if request.path in ("/healthz", "/health"):
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        given = request.headers.get("Authorization", "")
        expected = f"Api-Key {self._key}"
        if self._key and not hmac.compare_digest(given.encode(), expected.encode()):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "An API key is needed.\n")
        if not self._free:
            return connection.respond(
                http.HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_CONNECTIONS} connections are open.\n"
            )
        return None

    async def _handle(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        if not self._free:
            await connection.close(1013, "too many connections")
            return
        index = self._free.pop()
        slot = self._policy.make_slot(index)
        episodes = Episodes(self, slot)
        session = PROTOCOLS[self._listen.protocol](episodes, self.metadata(), self._policy)
        try:
            await self._converse(connection, session)
        except ConnectionClosed:
            pass
        finally:
            episodes.end()
            self._inference.forget(slot)
            slot.close()
            self._free.append(index)

    async def _converse(self, connection: Any, session: Session) -> None:
        """Answer the requests of one connection, one after the other."""
        greeting = session.greet()
        if greeting is not None:
            await connection.send(greeting)
        while True:
            try:
                async with asyncio.timeout(IDLE):
                    message = await connection.recv()
            except TimeoutError:
                await connection.close(1001, "idle")
                return
            try:
                said = unpack(_binary(message), _PARTS)
                if not isinstance(said, dict):
                    raise InvalidMessage("it is no map")
                answer = await session.answer(said)
            except (EnvHubError, InvalidMessage) as exc:
                told = (
                    str(exc) if isinstance(exc, EnvHubError) else f"The request is invalid: {exc}."
                )
                await connection.send(session.fail(printable(told)[:2000]))
                if session.ends_on_failure:
                    await connection.close(1011, "The request failed; the last frame says why.")
                    return
                continue
            if answer is not None:
                await connection.send(answer)


class Episodes:
    """The episodes of one connection, one at a time."""

    def __init__(self, server: Server, slot: Slot) -> None:
        self._server = server
        self._slot = slot
        self._number: int | None = None
        self._played = 0
        self._step = 0
        self._identity: tuple[Any, ...] = ()
        self._alone = False
        self._generation = -1

    def end(self) -> None:
        """End the episode under way, if there is one."""
        if self._number is not None:
            self._server._inference.finish(self._number)
        self._number = None

    async def act(self, request: dict[str, Any]) -> tuple[Array, float]:
        """Return the actions for a request, and the seconds that the policy took.

        Raises:
            EnvHubError: The request is wrong, or the policy failed.
        """
        server, slot = self._server, self._slot
        said = request.pop("envhub", None)
        instruction = server._reading.instruction(request)
        texts = server._reading.fill(request, slot.observations)
        told = None if said is None else read_context(said)
        identity = (
            (instruction,)
            if told is None
            else (told.suite, told.task, told.index, told.seed, instruction)
        )
        begins = (
            self._number is None
            or identity != self._identity
            or (told is not None and told.step == 0)
            or self._generation != server._policy.generation
        )
        if begins and told is not None and told.step:
            raise ContractError(
                f"The episode is not known here at step {told.step}: begin it again, from step 0."
            )
        begin = None
        if begins:
            self.end()
            self._number = next(server._numbers)
            self._identity, self._step = identity, 0
            self._generation = server._policy.generation
            begin = (
                told.episode(self._number, instruction)
                if told is not None
                else make_context(self._number, instruction, self._played)
            )
            self._played += 1
        assert self._number is not None
        step = self._step if told is None else told.step
        row = BatchRow(slot.index, self._number, step, texts)
        try:
            future = server._inference.ask(Ask(slot, row, begin, alone=self._alone))
            actions, seconds = await asyncio.wrap_future(future)
        except EnvHubError:
            self._alone = True  # until it is known who is to blame
            self.end()
            raise
        self._alone = False
        self._step = step + len(actions)
        return np.asarray(actions), seconds


def _binary(message: Any) -> bytes:
    if not isinstance(message, bytes):
        raise InvalidMessage("it is a text")
    return message


async def _serve(policy: HostedPolicy, reading: Reading, listen: Listen, ready: Any) -> None:
    await Server(policy, reading, listen).run(ready)


def warn_of_exposure(host: str) -> str | None:
    """Return what listening at an address means, unless it is of this machine alone."""
    if Address("ws", host, 0).on_loopback:
        return None
    needed = "with the key" if os.environ.get(KEY) else f"without a key ({KEY} is not set)"
    return (
        f"Whoever reaches {host} can use the policy {needed}, and what is sent can be read on the "
        "way: put a proxy with TLS before it in a network that others use."
    )


def check_installed() -> None:
    """Check that the library of connections is installed.

    Raises:
        UsageError: It is not.
    """
    if util.find_spec("websockets") is None:
        raise UsageError(
            "envhub serve needs websockets, which is not installed: pip install websockets"
        )


def serve(
    policy: HostedPolicy, reading: Reading, listen: Listen, ready: Callable[[int], object]
) -> None:
    """Serve a policy until SIGTERM or SIGINT, then end its process."""
    try:
        asyncio.run(_serve(policy, reading, listen, ready))
    finally:
        policy.close()
