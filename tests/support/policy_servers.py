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


def roboarena(answer: Callable[[dict[Any, Any]], Any], resets: list[Any]) -> Handler:
    """RoboArena's handler: its config; arrays for `infer`, a text for `reset`."""

    def handle(link: ServerConnection) -> None:
        config = {"image_resolution": (180, 320), "needs_session_id": True, "n_external_cameras": 1}
        link.send(pack(config))
        try:
            while True:
                request = unpack(link.recv())
                if request.pop("endpoint") == "reset":
                    resets.append(request["session_id"])
                    link.send("reset successful")
                    continue
                try:
                    link.send(pack(answer(request)))
                except Exception:
                    link.send(traceback.format_exc())
                    link.close(1011, "Internal server error.")
                    return
        except ConnectionClosed:
            return

    return handle


def vllm(answer: Callable[[dict[Any, Any]], Any], idle: float = 30.0) -> Handler:
    """vllm-omni's handler: errors are maps, and who is idle is left."""

    def handle(link: ServerConnection) -> None:
        link.send(pack({"model": "steer", "action_horizon": 4}))
        try:
            while True:
                request = unpack(link.recv(timeout=idle))
                request.pop("endpoint", "infer")
                try:
                    link.send(pack(answer(request)))
                except Exception as exc:
                    link.send(pack({"type": "error", "message": f"inference failed: {exc}"}))
        except TimeoutError:
            link.close(1000, "idle")
        except ConnectionClosed:
            return

    return handle


def vla_eval(answer: Callable[[dict[Any, Any]], Any], seen: list[str]) -> Handler:
    """vla-eval's handler: envelopes, with arrays whose marks are texts."""

    def encode_text(value: Any) -> Any:
        return {
            "__ndarray__": True,
            "data": value.tobytes(),
            "dtype": value.dtype.str,
            "shape": list(value.shape),
        }

    def decode_text(found: dict[Any, Any]) -> Any:
        if "__ndarray__" in found:
            return np.frombuffer(found["data"], found["dtype"]).reshape(found["shape"])
        return found

    def handle(link: ServerConnection) -> None:
        def say(kind: str, payload: Any, seq: int) -> None:
            message = {"type": kind, "payload": payload, "seq": seq, "timestamp": time.time()}
            link.send(msgpack.packb(message, default=encode_text))

        try:
            for message in link:
                said = msgpack.unpackb(message, object_hook=decode_text)
                seen.append(said["type"])
                if said["type"] == "hello":
                    say("hello", {"harness_version": "0.8.0", "protocol_version": 1}, said["seq"])
                elif said["type"] == "observation":
                    try:
                        say("action", answer(said["payload"]), said["seq"])
                    except Exception as exc:
                        say("error", {"error": f"observation_failed: {exc}"}, said["seq"])
        except ConnectionClosed:
            return

    return handle


def encode_gr00t(value: Any) -> Any:
    kind = {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape}
    return {**kind, b"data": value.tobytes()}


def decode_gr00t(found: dict[Any, Any]) -> Any:
    if b"nd" in found:
        return np.frombuffer(found[b"data"], found[b"type"]).reshape(found[b"shape"])
    return found


@contextmanager
def serving_gr00t(answer: Callable[[Any], Any], token: str | None = None) -> Iterator[int]:
    """GR00T's service: a REP socket with endpoints; gives the port."""
    import zmq

    context = zmq.Context()
    replies = context.socket(zmq.REP)
    port = replies.bind_to_random_port("tcp://127.0.0.1")
    ended = threading.Event()
    config = {"__ModalityConfig_class__": True, "as_json": {"modality_keys": ["arm", "gripper"]}}

    def handle(request: Any) -> Any:
        if token is not None and request.get("api_token") != token:
            return {"error": "Unauthorized: Invalid API token"}
        endpoint = request.get("endpoint", "get_action")
        if endpoint == "get_modality_config":
            return {"action": config}
        if endpoint == "reset":
            return dict(request["data"])
        return [answer(request["data"]["observation"]), {}]

    def serve_all() -> None:
        while not ended.is_set():
            if not replies.poll(50):
                continue
            try:
                said = handle(msgpack.unpackb(replies.recv(), object_hook=decode_gr00t))
            except Exception as exc:
                said = {"error": str(exc)}
            replies.send(msgpack.packb(said, default=encode_gr00t))

    thread = threading.Thread(target=serve_all)
    thread.start()
    try:
        yield port
    finally:
        ended.set()
        thread.join()
        replies.close(0)
        context.term()


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
