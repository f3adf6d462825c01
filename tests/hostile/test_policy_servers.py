"""Hostile policy servers: they end their own episodes, in bounded time and memory."""

import base64
import hashlib
import itertools
import socket
import threading
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from envhub_servers.policy import make_policy
from gymnasium import spaces
from support.policy_servers import openpi, pack, serving
from websockets.exceptions import ConnectionClosed

from envhub import Benchmark, Context, Task
from envhub.errors import ContractError

SPACE = spaces.Dict({"agent_pos": spaces.Box(-1, 1, (2,), np.float32)})
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
BENCHMARK = Benchmark("reach", ":make", {"near": (Task("red", "go", 60),)})
MIB = 2**20


def connect(port):
    return make_policy(
        BENCHMARK,
        SPACE,
        ACTIONS,
        dialect="openpi",
        transport="ws",
        place=f"//127.0.0.1:{port}",
        keys="agent_pos=state",
        connect=2,
    )


def act(policy, index=0):
    episode = Context("near", "red", "go", index, 7)
    policy.start(episode)
    return policy.act({"agent_pos": np.zeros((1, 2), np.float32)}, [episode])


def endless_frames(link):
    link.send(pack({}))
    link.recv()
    try:
        link.send(itertools.repeat(b"\0" * MIB))
    except ConnectionClosed:
        return


def many_parts(link):
    link.send(pack({}))
    link.recv()
    link.send(b"\xdd\x00\x98\x96\x80" + b"\xc0" * 10_000_000)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (endless_frames, "a message was larger than 64 MiB"),
        (many_parts, "it has too many parts"),
    ],
)
def test_an_answer_is_bounded(handler, problem):
    with serving(handler) as port:
        policy = connect(port)
        tracemalloc.start()
        try:
            with pytest.raises(ContractError, match=problem):
                act(policy)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            policy.close()
    # The client and the server are in this process; each has the message a few times at most.
    assert peak < 600 * MIB


def test_a_flood_waits_at_the_server():
    """What nobody asked for is not read on: the server's own send waits."""
    sent, ended = [], threading.Event()

    def flood(link):
        link.send(pack({}))
        try:
            while not ended.is_set():
                link.send(pack({"actions": np.zeros(MIB // 8)}))
                sent.append(time.monotonic())
        except ConnectionClosed:
            return

    with serving(flood) as port:
        policy = connect(port)
        try:
            for _ in range(40):  # until it stands still
                before = len(sent)
                time.sleep(0.1)
                if before and len(sent) == before:
                    break
            assert len(sent) < 40
            with pytest.raises(ContractError, match="a message that nobody asked for"):
                act(policy)
        finally:
            ended.set()
            policy.close()


@contextmanager
def speaking(after):
    """A server that shakes hands, and then sends what is given, as bytes on the line."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            link, _ = server.accept()
            with link:
                head = link.recv(65536).decode()
                key = head.split("Sec-WebSocket-Key: ")[1].split("\r\n")[0]
                guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                accept = base64.b64encode(hashlib.sha1((key + guid).encode()).digest()).decode()
                link.sendall(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode()
                )
                try:
                    for part in after:
                        link.sendall(part)
                        time.sleep(0.05)
                    link.settimeout(5)
                    while link.recv(65536):
                        pass
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    "after",
    [
        [b"\x82\x7f" + (2**62).to_bytes(8, "big")],
        [b"\x82\x7f" + (2**63).to_bytes(8, "big")],
        [b"\xf3\x00"],
        [b"\x82\xff" + b"\0" * 12],
        itertools.repeat(b"\x89\x00", 60),
        itertools.chain([b"\x82\x7e\x7f\xff"], itertools.repeat(b"\0", 60)),
    ],
    ids=["huge", "negative", "reserved", "masked", "pings", "slow bytes"],
)
def test_frames_that_lie_are_given_up_in_time(after):
    """The server keeps the line open, so that only the limit of time ends it."""
    with (
        speaking(after) as port,
        pytest.raises(ContractError, match=r"was silent for 2 s|closed the connection"),
    ):
        connect(port)


def test_one_hostile_answer_leaves_the_next_episode_alone():
    answers = iter([b"\xc1", pack({"actions": np.zeros((1, 2))})])
    with serving(openpi(lambda _: next(answers))) as port:
        policy = connect(port)
        with pytest.raises(ContractError, match="something else than an answer"):
            act(policy)
        assert act(policy)[0].shape == (1, 2)
        policy.close()
