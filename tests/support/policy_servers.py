"""Servers that speak the protocols of policy servers, written from their descriptions alone.

Independent of `envhub_servers`: the codec here is the package msgpack, and every handler is a few
lines. `serving` runs one in this process; `python policy_servers.py PORT` runs one that can be
killed.
"""

import http
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

Handler = Callable[[ServerConnection], None]


def encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {
            b"__ndarray__": True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    raise TypeError(type(value))


def decode(found: dict[Any, Any]) -> Any:
    if b"__ndarray__" in found:
        return np.frombuffer(found[b"data"], found[b"dtype"]).reshape(found[b"shape"])
    return found


def pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, default=encode)
    return packed


def unpack(message: bytes) -> Any:
    return msgpack.unpackb(message, object_hook=decode)


def steer(request: dict[Any, Any]) -> dict[str, Any]:
    """Four actions towards the goal of the example benchmark."""
    action = np.clip(5 * (request["goal"] - request["state"]), -1, 1).astype(np.float32)
    return {"actions": np.stack([action] * 4), "policy_timing": {"infer_ms": 2.5}}


def openpi(
    answer: Callable[[dict[Any, Any]], Any] = steer, metadata: Any = None, wait: float = 0.0
) -> Handler:
    """openpi's handler: the metadata, then an answer for each request; an error ends it."""

    def handle(link: ServerConnection) -> None:
        time.sleep(wait)
        link.send(pack({"model": "steer"} if metadata is None else metadata))
        while True:
            try:
                request = unpack(link.recv())
            except ConnectionClosed:
                return
            try:
                said = answer(request)
                link.send(said if isinstance(said, bytes) else pack(said))
            except ConnectionClosed:
                return
            except Exception:
                link.send(traceback.format_exc())
                link.close(1011, "Internal server error. Traceback included in previous frame.")
                return

    return handle


def _health(link: ServerConnection, request: Any) -> Any:
    return link.respond(http.HTTPStatus.OK, "OK\n") if request.path == "/healthz" else None


@contextmanager
def serving(handler: Handler, port: int = 0) -> Iterator[int]:
    """Serve in a thread of this process; gives the port."""
    with serve(
        handler, "127.0.0.1", port, compression=None, max_size=None, process_request=_health
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    with serve(
        openpi(), "127.0.0.1", int(sys.argv[1]), compression=None, process_request=_health
    ) as forever:
        forever.serve_forever()
