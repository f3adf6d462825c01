"""A client of openpi's protocol against real servers: every row of the table of errors."""

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from envhub_servers.policy import make_policy
from gymnasium import spaces
from support.commands import envhub as run_envhub
from support.commands import refused
from support.paths import DOCS
from support.policy_servers import openpi, pack, serving, steer

import envhub
from envhub import Benchmark, Context, Task
from envhub.errors import ContractError, ExitCode

REACH = f"{DOCS}/examples/reach"
KEYS = "agent_pos=state,environment_state=goal,pixels=image,instruction=prompt"
SPACE = spaces.Dict(
    {
        "agent_pos": spaces.Box(-1, 1, (2,), np.float32),
        "environment_state": spaces.Box(-1, 1, (2,), np.float32),
        "pixels": spaces.Box(0, 255, (8, 8, 3), np.uint8),
    }
)
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
OBSERVATION = {
    "agent_pos": np.array([[0.0, 0.5]], np.float32),
    "environment_state": np.array([[1.0, 0.4]], np.float32),
    "pixels": np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3),
}


def benchmark(**conventions):
    tasks = (Task("red", "move to the red goal", 60),)
    return Benchmark("reach", ":make", {"near": tasks}, conventions=conventions)


def connect(port, **args):
    fixed = {"dialect": "openpi", "transport": "ws", "place": f"//127.0.0.1:{port}"}
    asked = {**fixed, "keys": KEYS, "connect": 3, **args}
    return make_policy(asked.pop("benchmark", benchmark()), SPACE, ACTIONS, **asked)


@contextmanager
def connected(port, **args):
    made = connect(port, **args)
    try:
        yield made
    finally:
        made.close()


def act(policy, *, index=0):
    episode = Context("near", "red", "move to the red goal", index, 7)
    policy.start(episode)
    (actions,) = policy.act(OBSERVATION, [episode])
    policy.finish(episode)
    return actions


def test_an_answer_and_what_is_sent():
    requests = []

    def answer(request):
        requests.append(request)
        return steer(request)

    with serving(openpi(answer)) as port, connected(port, size=4, n_action_steps=3) as policy:
        first, second = act(policy), act(policy, index=1)
    assert (first == second).all()
    assert np.allclose(first, [[1.0, -0.5]] * 3)
    assert list(requests[0]) == ["state", "goal", "image", "prompt"]
    assert requests[0]["image"].shape == (4, 4, 3)
    assert requests[0]["prompt"] == "move to the red goal"
    assert requests[0]["state"].dtype == np.float32
    assert policy.reproducible is False
    assert json.loads(policy.about["metadata"]) == {"model": "steer"}
    assert policy.take_about() == {"server_infer_ms": "median 2.5 of 2"}
    assert "draws its own random numbers" in policy.remarks[0]


def broken(value):
    """Answers that are not actions of the benchmark."""
    return lambda _: value


NOT_FINITE = np.full((4, 2), np.nan, np.float32)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (broken({"action": 1}), "answered without 'actions': a map of action. Name the key"),
        (broken({}), "answered without 'actions': a map of nothing"),
        (broken([1]), "answered without 'actions': [1]"),
        (broken({"actions": np.zeros((4, 7))}), "shape (4, 7); reach takes (actions, 2)"),
        (broken({"actions": np.zeros((0, 2))}), "shape (0, 2)"),
        (broken({"actions": np.zeros((2, 4, 2))}), "shape (2, 4, 2)"),
        (broken({"actions": NOT_FINITE}), "not finite"),
        (broken({"actions": "up"}), "dtype <U2"),
        (broken({"actions": [[1], [1, 2]]}), "no array"),
        (broken({"actions": np.zeros((2, 2))}), "2 actions, fewer than n_action_steps=3"),
        (broken(b"\xc1"), "sent something else than an answer of openpi: it cannot be read"),
        (broken(pack({"actions": {b"__ndarray__": True, b"dtype": "|O"}})), "cannot be read"),
        (
            broken(pack({"a": {b"__ndarray__": True, b"dtype": "|O", b"shape": [], b"data": b""}})),
            "it has an array of dtype '|O'",
        ),
        (lambda request: request["missing"], "failed: KeyError: 'missing'"),
    ],
)
def test_wrong_answers(answer, problem):
    with serving(openpi(answer)) as port, connected(port, n_action_steps=3) as policy:
        with pytest.raises(ContractError) as caught:
            act(policy)
        assert problem in str(caught.value), str(caught.value)
        assert f"127.0.0.1:{port}" in str(caught.value)
        # The next episode has a connection of its own.
        with pytest.raises(ContractError) as caught:
            act(policy)
        assert problem in str(caught.value)


def text_first(link):
    link.send("Traceback ...\nValueError: no \x1b[2Jweights\n")


def number_first(link):
    link.send(pack(7))


def closes(link):
    link.close(1013, "try again later")


def breaks_off(link):
    link.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (text_first, "failed: ValueError: no \\x1b[2Jweights"),
        (number_first, "began with a int instead of metadata: it is no openpi server"),
        (lambda link: link.send(b"\xc1"), "something else than metadata of openpi"),
        (closes, "closed the connection: code 1013 (try again later)"),
        (breaks_off, "closed the connection"),
        (lambda _: time.sleep(2), "was silent for 0.5 s"),
    ],
)
def test_what_is_no_server_of_the_dialect(handler, problem):
    with serving(handler) as port, pytest.raises(ContractError) as caught:
        connect(port, connect=0.5)
    assert problem in str(caught.value), str(caught.value)
    assert "\x1b" not in str(caught.value)


@contextmanager
def listening(answer):
    """A server that answers the first bytes of a connection with others."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            link, _ = server.accept()
            with link:
                link.recv(65536)
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "refuses the connection: did not receive a valid HTTP resp"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "Put its API key into ENVHUB_"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
    ],
)
def test_what_speaks_no_websocket(answer, problem):
    with listening(answer) as port, pytest.raises(ContractError) as caught:
        connect(port)
    assert problem in str(caught.value), str(caught.value)


def test_an_unasked_message_is_not_taken_for_an_answer():
    def twice(link):
        link.send(pack({}))
        link.recv()
        link.send(pack(steer({"goal": np.ones(2), "state": np.zeros(2)})))
        link.send(pack({"actions": np.zeros((4, 2))}))
        link.recv()

    with serving(twice) as port, connected(port) as policy:
        act(policy)
        time.sleep(0.2)
        with pytest.raises(ContractError, match="a message that nobody asked for"):
            act(policy, index=1)


def test_the_key_is_sent_and_kept_nowhere(monkeypatch):
    monkeypatch.setenv("ENVHUB_POLICY_KEY", "s3cret")
    seen = []

    def handle(link):
        seen.append(link.request.headers["Authorization"])
        openpi()(link)

    with serving(handle) as port, connected(port) as policy:
        act(policy)
    assert seen == ["Api-Key s3cret"]
    assert "s3cret" not in json.dumps([policy.about, policy.remarks])


@pytest.mark.parametrize(
    ("images", "args", "turned"),
    [
        ("upside_down", {"conventions": "images=upright"}, True),
        ("upright", {"conventions": "images=upright"}, False),
        ("upside_down", {}, False),
    ],
)
def test_pictures_are_turned_by_conventions(images, args, turned):
    seen = []

    def answer(request):
        seen.append(request["image"])
        return steer(request)

    args = {**args, "benchmark": benchmark(images=images)}
    with serving(openpi(answer)) as port, connected(port, **args) as policy:
        act(policy)
    # On the benchmark's side the two agree, so the run is not refused.
    assert policy.conventions == ({"images": images} if "conventions" in args else {})
    picture = OBSERVATION["pixels"][0]
    assert (seen[0] == (picture[::-1, ::-1] if turned else picture)).all()


def evaluate(out, port, **more):
    options = {
        "suites": ["near"],
        "episodes": 2,
        "workers": 1,
        "out": out,
        "policy_args": {"keys": KEYS, "connect": 20},
        **more,
    }
    return envhub.evaluate(REACH, f"ws://127.0.0.1:{port}", **options)


def traces(run):
    return sorted((r.number, r.trace) for r in run.records())


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A run over a server that nothing happens to."""
    with serving(openpi()) as port:
        yield port, evaluate(tmp_path_factory.mktemp("calm") / "run", port)


def test_runs_are_equal_for_any_number_of_workers_and_recorded(calm, tmp_path):
    port, run = calm
    assert traces(evaluate(tmp_path / "run", port, workers=3)) == traces(run)
    assert all(record.success for record in run.records())
    info = json.loads((run.directory / "run.json").read_text())
    assert info["reproducible"] is False
    policy, url = info["policy"], f"ws://127.0.0.1:{port}"
    assert policy["provided"]["details"] == {"dialect": "openpi", "url": url}
    assert policy["about"]["server_infer_ms"].startswith("median 2.5 of ")
    assert json.loads(policy["about"]["sent"])["keys"] == KEYS


def test_failures_are_policy_errors_and_silence_a_timeout(tmp_path):
    """One episode in three fails each way; the others are played."""
    counted = []

    def answer(request):
        counted.append(request["prompt"])
        if "green" in request["prompt"]:
            raise RuntimeError("out of memory")
        if "blue" in request["prompt"]:
            time.sleep(4)
        return steer(request)

    with serving(openpi(answer)) as port:
        limits = envhub.Limits(act=1.5)
        with pytest.warns(RuntimeWarning, match="2 of 3 episodes ended with an error"):
            run = evaluate(tmp_path / "run", port, episodes=1, retries=0, limits=limits)
    found = {record.task: record for record in run.records()}
    assert found["reach-red"].success
    assert found["reach-green"].status == "policy_error"
    assert "RuntimeError: out of memory" in found["reach-green"].error.message
    assert found["reach-blue"].status == "timeout"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["overall"]["policy_errors"]


def test_a_server_that_comes_back_ends_in_the_same_records(calm, tmp_path):
    """Killed in the middle of a run and started again: the episode under way begins again."""
    script = sys.modules[serving.__module__].__file__
    with serving(openpi()) as port:
        pass  # the servers below take the same one
    servers = [subprocess.Popen([sys.executable, script, str(port)])]
    done = threading.Event()
    journal = tmp_path / "run" / "episodes.jsonl"

    def kill_once():
        while not done.wait(0.02):
            if journal.exists() and journal.read_bytes().count(b"\n"):
                servers[0].kill()
                servers[0].wait()
                servers.append(subprocess.Popen([sys.executable, script, str(port)]))
                return

    killer = threading.Thread(target=kill_once)
    try:
        wait_for(port)
        killer.start()
        run = evaluate(tmp_path / "run", port)
    finally:
        done.set()
        killer.join()
        for server in servers:
            server.kill()
            server.wait()
    assert len(servers) == 2
    assert traces(run) == traces(calm[1])
    assert all(record.status == "ok" for record in run.records())


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(port)


def test_another_server_is_refused_when_a_run_is_continued(tmp_path):
    out = tmp_path / "run"
    with serving(openpi()) as port:
        evaluate(out, port, episodes=1)
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:-1]))
    with serving(openpi(metadata={"model": "other"}), port):
        answer = run_envhub("eval", "--resume", str(out))
    assert answer.code == ExitCode.CONTRACT, answer
    assert "says something else of itself than when the run began" in answer.err
    assert "Traceback" not in answer.err
    with serving(openpi(), port):
        answer = run_envhub("eval", "--resume", str(out))
    assert answer.code == ExitCode.DONE, answer
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 3


def test_without_keys_both_sides_are_listed(tmp_path):
    with serving(openpi()) as port:
        answer = run_envhub("eval", REACH, "--policy", f"ws://127.0.0.1:{port}", cwd=tmp_path)
    assert answer.code == ExitCode.CONTRACT
    assert "reach has agent_pos, environment_state, pixels, instruction;" in answer.err
    assert "observation/wrist_image" in answer.err
    assert "keys=libero" in answer.err
    assert "line" not in answer.err  # of a file, which would say nothing


def test_the_doctor_shows_a_server():
    with serving(openpi()) as port:
        answer = run_envhub("doctor", "--policy", f"ws://127.0.0.1:{port}", "--json")
        assert answer.code == ExitCode.DONE, answer
        found = json.loads(answer.out)
        assert (found["dialect"], found["metadata"]) == ("openpi", '{"model": "steer"}')
        assert found["round trip"].endswith(" ms")
        answer = run_envhub("doctor", "--policy", f"vla-eval+ws://127.0.0.1:{port}")
        refused(answer, ExitCode.CONTRACT, "sent something else than a hello of vla-eval")
    answer = run_envhub("doctor", "--policy", f"ws://127.0.0.1:{port}")
    refused(answer, ExitCode.SOURCE, "Nothing answers at ws://127.0.0.1")
    refused(run_envhub("doctor", "--policy", "random"), ExitCode.USAGE, "is no policy server")


def test_without_the_plugin_nothing_is_imported():
    code = (
        "import sys, envhub, envhub.cli; from envhub.policies.find import read_policy;"
        "read_policy('ws://h:1'); "
        "print([m for m in ('websockets', 'zmq', 'PIL', 'envhub_servers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
