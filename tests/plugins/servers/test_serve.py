"""`envhub serve`: what is served acts as it does locally, and clients can only ask for actions."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager

import msgpack
import numpy as np
import pytest
from support.paths import ASSETS, DOCS
from support.policy_servers import pack, unpack
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import envhub

REACH = f"{DOCS}/examples/reach"
# Draws from the episode's generator and remembers: wrong unless each episode has its own state.
NOISY = """
import numpy as np


class Noisy:
    batch = 2
    conventions = {"images": "upright"}

    def __init__(self, gain):
        self.gain = gain

    def start(self, episode):
        episode.memory["looks"] = 0
        episode.memory["bias"] = episode.rng.normal(size=2)

    def act(self, obs, episodes):
        chunks = []
        for row, episode in enumerate(episodes):
            episode.memory["looks"] += 1
            if obs["agent_pos"][row][0] > 5:
                raise ValueError("far away")
            gap = obs["environment_state"][row] - obs["agent_pos"][row]
            noise = 0.1 * episode.rng.normal(size=2) + 0.05 * episode.memory["bias"]
            noise += 0.001 * (episode.memory["looks"] + episode.step + len(episode.description))
            noise += 0.001 * obs["pixels"][row].mean()
            chunks.append(np.stack([np.clip(self.gain * gap + noise, -1, 1)] * 3))
        return np.array(chunks, np.float32)


def make_policy(benchmark, observation_space, action_space, gain=5.0):
    return Noisy(gain)
"""
OBSERVATION = {
    "agent_pos": np.zeros(2, np.float32),
    "environment_state": np.full(2, 0.1, np.float32),
    "pixels": np.zeros((64, 64, 3), np.uint8),
    "prompt": "go",
}


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "noisy.py"
    path.write_text(NOISY)
    return path


class Served:
    """A running `envhub serve`."""

    def __init__(self, policy, *arguments, port=0, **variables):
        command = [sys.executable, "-m", "envhub", "serve", str(policy), "--for", REACH]
        self.process = subprocess.Popen(
            [*command, "--port", str(port), *arguments],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        self.reads = self.process.stdout.readline().strip()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out + err


@contextmanager
def serving(policy, *arguments, **options):
    served = Served(policy, *arguments, **options)
    try:
        yield served
    finally:
        served.process.kill()
        served.process.communicate()


@pytest.fixture(scope="module")
def served(noisy):
    with serving(noisy) as one:
        yield one


def evaluate(out, policy, **more):
    options = {"suites": ["near"], "episodes": 2, "workers": 1, "out": out, **more}
    return envhub.evaluate(REACH, policy, **options)


def traces(run):
    return sorted((r.number, r.trace) for r in run.records())


@pytest.fixture(scope="module")
def local(noisy, tmp_path_factory):
    return evaluate(tmp_path_factory.mktemp("local") / "run", str(noisy))


def test_served_as_it_acts_locally(served, local, tmp_path):
    for workers in (1, 3):
        run = evaluate(tmp_path / str(workers), served.url, workers=workers)
        assert traces(run) == traces(local)
    info = json.loads((tmp_path / "3" / "run.json").read_text())
    assert info["reproducible"] is True
    assert info["conventions"]["policy"] == {"images": "upright"}
    said = json.loads(info["policy"]["about"]["metadata"])["envhub"]
    assert said["batch"] == 2
    assert said["policy"].startswith("sha256:")
    assert said["reads"] == ["agent_pos", "environment_state", "pixels"]


def test_killed_and_started_again_the_records_are_the_same(noisy, local, tmp_path):
    first = Served(noisy)
    servers = [first]
    done = threading.Event()
    journal = tmp_path / "run" / "episodes.jsonl"

    def kill_once():
        while not done.wait(0.02):
            if journal.exists() and journal.read_bytes().count(b"\n"):
                first.process.kill()
                first.process.communicate()
                servers.append(Served(noisy, port=first.port))
                return

    killer = threading.Thread(target=kill_once)
    killer.start()
    try:
        run = evaluate(tmp_path / "run", first.url)
    finally:
        done.set()
        killer.join()
        for server in servers:
            server.process.kill()
            server.process.communicate()
    assert len(servers) == 2
    assert traces(run) == traces(local)


def ask(link, **changes):
    request = {**OBSERVATION, **changes}
    link.send(pack({key: value for key, value in request.items() if value is not None}))
    answer = link.recv(timeout=20)
    return answer if isinstance(answer, str) else unpack(answer)


@contextmanager
def client(served, **options):
    with connect(f"ws://127.0.0.1:{served.port}", compression=None, **options) as link:
        assert "envhub" in unpack(link.recv(timeout=20))
        yield link


def test_a_client_of_openpi_gets_actions_and_episodes_of_its_own(served):
    with client(served) as one, client(served) as other:
        answers = [ask(link)["actions"] for link in (one, one, other)]
    assert all(actions.shape == (3, 2) for actions in answers)
    # Without seeds, each connection draws its own.
    assert not (answers[0] == answers[2]).all()


CONTEXT = {"suite": "near", "task": "reach-red", "index": 0, "seed": 7, "step": 0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agent_pos": None}, "no agent_pos. It has environment_state, pixels, prompt; the policy"),
        (
            {"agent_pos": np.zeros(3, np.float32)},
            "agent_pos has the shape (3,); the policy reads",
        ),
        ({"agent_pos": "here"}, "must be an array of numbers, found str"),
        (
            {"pixels": np.zeros((64, 64, 3), np.float64)},
            "has the dtype float64; the policy",
        ),
        ({"prompt": 7}, "prompt must be a text"),
        ({"prompt": "x" * 20_001}, "at most 20000 characters"),
        ({"agent_pos": np.full(2, 9, np.float32)}, "ValueError: far away"),
        ({"envhub": {"seed": 1}}, "must have suite, task, index, seed and step"),
        ({"envhub": {**CONTEXT, "seed": -1}}, "seed is no whole number"),
        ({"envhub": {**CONTEXT, "task": "../x"}}, "task is no name"),
        ({"envhub": {**CONTEXT, "step": 4}}, "not known here at step 4: begin it again"),
    ],
)
def test_wrong_requests_are_told_in_a_sentence_and_end_the_connection(served, changes, said):
    with client(served) as link:
        answer = ask(link, **changes)
        assert isinstance(answer, str)
        assert said in answer
        assert "Traceback" not in answer
        with pytest.raises(ConnectionClosed) as caught:
            link.recv(timeout=20)
    assert caught.value.rcvd.code == 1011


@pytest.mark.parametrize(
    "message",
    [
        b"\xc1",
        b"",
        "a text",
        pack([1]),
        msgpack.packb(list(range(20_000))),
        b"\x91" * 1000 + b"\xc0",
        pack({"agent_pos": {b"__ndarray__": True, b"dtype": "|O", b"shape": [2], b"data": b""}}),
    ],
    ids=["reserved", "empty", "text", "list", "parts", "deep", "objects"],
)
def test_what_is_no_request_is_refused(served, message):
    with client(served) as link:
        link.send(message)
        assert "The request is invalid" in link.recv(timeout=20)


def test_a_frame_that_is_too_large_ends_its_connection_only(served):
    with client(served) as good, client(served) as bad:
        bad.send(b"\0" * 2**24)
        with pytest.raises(ConnectionClosed) as caught:
            bad.recv(timeout=20)
        assert caught.value.rcvd.code == 1009
        assert ask(good)["actions"].shape == (3, 2)


def open_one(served, stack):
    link = stack.enter_context(connect(f"ws://127.0.0.1:{served.port}", compression=None))
    return link.recv(timeout=20)


def test_connections_are_bounded_and_given_back(served):
    with socket.create_connection(("127.0.0.1", served.port)) as slow, ExitStack() as stack:
        slow.sendall(b"GET / HTTP/1.1\r\n")  # and nothing more
        for _ in range(64):
            open_one(served, stack)
        with pytest.raises(InvalidStatus) as caught:
            open_one(served, stack)
        assert caught.value.response.status_code == 503
    for _ in range(100):
        try:
            with client(served) as link:
                assert ask(link)["actions"].shape == (3, 2)
                return
        except InvalidStatus:
            time.sleep(0.05)
    raise AssertionError("no connection was given back")


def test_health_and_nothing_else_over_http(served):
    base = f"http://127.0.0.1:{served.port}"
    for path in ("/healthz", "/health"):
        with urllib.request.urlopen(base + path, timeout=20) as answer:
            assert (answer.status, answer.read()) == (200, b"OK\n")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(base + "/config?max_batch_size=8", timeout=20)
    with caught.value as error:
        assert error.code == 426  # only a WebSocket is there


def test_pages_in_a_browser_are_refused(served):
    url = f"ws://127.0.0.1:{served.port}"
    with pytest.raises(InvalidStatus) as caught, ExitStack() as stack:
        stack.enter_context(connect(url, origin="http://evil.example"))
    assert caught.value.response.status_code == 403


def test_the_key_is_needed_and_the_end_is_clean(noisy):
    with serving(noisy, "--protocol", "vla-eval", ENVHUB_POLICY_KEY="s3cret") as one:
        with pytest.raises(InvalidStatus) as caught, ExitStack() as stack:
            stack.enter_context(connect(f"ws://127.0.0.1:{one.port}"))
        assert caught.value.response.status_code == 401
        headers = {"Authorization": "Api-Key s3cret"}
        with connect(f"ws://127.0.0.1:{one.port}", additional_headers=headers) as link:
            link.send(pack({"type": "hello", "payload": {}, "seq": 1, "timestamp": 0.0}))
            hello = unpack(link.recv(timeout=20))
            assert (hello["type"], hello["seq"]) == ("hello", 1)
            code, said = one.end()
        assert (code, "Traceback" in said, "s3cret" in said) == (0, False, False)


def test_another_address_is_warned_of(noisy):
    process = Served(noisy, "--host", "0.0.0.0")
    code, said = process.end()
    assert code == 0
    assert re.search(r"Whoever reaches 0.0.0.0 can use the policy without a key", said)


CONVERTED = """
import numpy as np


class Steer:
    format = "lerobot"

    def act(self, obs, episodes):
        state = np.asarray(obs["observation.state"])
        assert obs["task"] == [episode.description for episode in episodes]
        noise = np.stack([episode.rng.normal(size=state.shape[1] // 2) for episode in episodes])
        half = state.shape[1] // 2
        return np.clip(state[:, half:] - state[:, :half] + noise, -1, 1).astype(np.float32)


def make_policy(benchmark, observation_space, action_space):
    return Steer()
"""


def test_what_the_benchmark_converts_is_served_too(tmp_path):
    """A policy of LeRobot's format sees what the benchmark's own conversion makes, in both runs."""
    walk = f"{ASSETS}/engine_walk"
    policy = tmp_path / "steer.py"
    policy.write_text(CONVERTED)

    def play(name, what):
        return envhub.evaluate(walk, what, episodes=2, workers=1, out=tmp_path / name)

    with serving(policy, "--for", walk) as one:
        assert one.reads == "It reads observation.state, prompt."
        served = play("served", one.url)
    local = play("local", str(policy))
    assert traces(served) == traces(local)
    assert len({trace for _, trace in traces(local)}) > 1
