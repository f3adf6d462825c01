"""Policy servers against the real peers: openpi-client 0.1.2 and vla-eval 0.8.

Each has an environment of its own, because openpi-client needs numpy below 2: it is built below
.pytest_cache, once.
"""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from envhub_servers.codec import pack
from support.lerobot_runs import PATIENT, WALK, actions, evaluate, made_once
from support.needs import lerobot_python, needs_lerobot
from support.paths import DOCS, TESTS

import envhub
from envhub.results.run import open_run

pytestmark = pytest.mark.soak
REACH = f"{DOCS}/examples/reach"
STEER = f"{DOCS}/examples/policies/steer.py"


def environment(place, *requirements):
    """Build an environment once; returns its interpreter."""
    python = place / "bin/python"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
        (place / "ready").touch()
    return python


@pytest.fixture(scope="module")
def openpi_python(pytestconfig):
    place = pytestconfig.cache.mkdir("openpi-client")
    # Which it imports, and does not require.
    return environment(place, "openpi-client==0.1.2", "typing-extensions")


@pytest.fixture(scope="module")
def vla_eval_python(pytestconfig):
    return environment(pytestconfig.cache.mkdir("vla-eval"), "vla-eval==0.8.0")


def serve(*arguments, port=0):
    command = [sys.executable, "-m", "envhub", "serve", *arguments, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline().rpartition(":")[2])


@contextmanager
def serving(*arguments):
    given = arguments if "--for" in arguments else (STEER, "--for", REACH, *arguments)
    process, port = serve(*given)
    try:
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=30)


def run(python, *arguments):
    done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_openpis_own_client_and_codec(openpi_python):
    with serving() as port:
        found = run(openpi_python, TESTS / "support/peer_openpi.py", str(port))
    assert found["numpy"].startswith("1.")
    assert found["metadata"] == ["envhub"]
    assert found["actions"] == [[[1.0, -1.0]]] * 3
    assert "no environment_state" in found["error"] or "has the shape (3,)" in found["error"]
    request = {
        "agent_pos": np.zeros(2, np.float32),
        "environment_state": np.array([0.5, -0.25], np.float32),
        "prompt": "go",
        "scalar": np.float32(0.5),
        "pixels": np.zeros((2, 2, 3)),
    }
    assert pack(request).hex() == found["packed"]


def test_vla_evals_own_client(vla_eval_python):
    with serving("--protocol", "vla-eval") as port:
        found = run(vla_eval_python, TESTS / "support/peer_vla_eval.py", "client", str(port))
    # 20 times the gap, clipped: the same in both episodes.
    assert found["looks"][:3] == found["looks"][3:]
    assert found["looks"][0] == [1.0, -1.0]
    assert "envhub" in found["hello"]
    assert "The request has no states[agent_pos]" in found["error"]


def test_vla_evals_own_server(vla_eval_python, tmp_path):
    script = TESTS / "support/peer_vla_eval.py"
    process = subprocess.Popen(
        [vla_eval_python, script, "server"], stdout=subprocess.PIPE, text=True
    )
    keys = "agent_pos=states[state],environment_state=states[goal],pixels=images[front],"
    try:
        port = int(process.stdout.readline())
        runs = [
            envhub.evaluate(
                REACH,
                f"vla-eval+ws://127.0.0.1:{port}",
                policy_args={"keys": f"{keys}instruction=task_description"},
                suites=["near"],
                episodes=2,
                workers=workers,
                out=tmp_path / str(workers),
            )
            for workers in (1, 3)
        ]
    finally:
        process.kill()
        process.communicate()
    first, second = (sorted((r.number, r.trace) for r in one.records()) for one in runs)
    assert first == second
    assert all(record.success for record in runs[0].records())


@needs_lerobot
@pytest.mark.parametrize(("name", "batch"), [("act", 1), ("diffusion", 4)])
def test_a_checkpoint_acts_as_it_does_locally(tmp_path_factory, tmp_path, name, batch):
    """Diffusion draws random numbers, and looks back: both belong to the episode."""
    place = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", "act", "diffusion")
    checkpoint = place / name
    local = evaluate(checkpoint, tmp_path / "local", policy_args={"batch": batch}, workers=1)
    asked = (f"lerobot:{checkpoint}", "--for", WALK, "--policy-arg", f"batch={batch}")
    limits = ("--timeout", "start=600,act=600")
    with serving(*asked, "--policy-python", str(lerobot_python()), *limits) as port:
        for workers in (1, 3):
            run = envhub.evaluate(
                WALK,
                f"ws://127.0.0.1:{port}",
                episodes=6,
                seeding="shared",
                workers=workers,
                limits=PATIENT,
                out=tmp_path / str(workers),
            )
            assert [record.trace for record in run.records()]
            assert actions(run) == actions(local)
            assert run.info["reproducible"] is True


@needs_lerobot
def test_a_checkpoint_whose_server_is_killed_and_started_again(tmp_path_factory, tmp_path):
    """The episode that was under way is played again; the actions are those of a local run."""
    place = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", "act", "diffusion")
    local = evaluate(place / "act", tmp_path / "local", policy_args={"batch": 1}, workers=1)
    asked = (
        f"lerobot:{place / 'act'}", "--for", WALK, "--policy-arg", "batch=1",
        "--policy-python", str(lerobot_python()), "--timeout", "start=600,act=600",
    )  # fmt: skip
    first, port = serve(*asked)
    servers = [first]
    journal, done = tmp_path / "run" / "episodes.jsonl", threading.Event()

    def kill_once():
        while not done.wait(0.02):
            if journal.exists() and journal.read_bytes().count(b"\n") >= 2:
                first.kill()
                first.communicate()
                servers.append(serve(*asked, port=port)[0])
                return

    killer = threading.Thread(target=kill_once)
    killer.start()
    try:
        run = envhub.evaluate(
            WALK,
            f"ws://127.0.0.1:{port}",
            policy_args={"connect": 600},
            episodes=6,
            seeding="shared",
            workers=1,
            limits=PATIENT,
            out=tmp_path / "run",
        )
    finally:
        done.set()
        killer.join()
        servers[-1].kill()
        servers[-1].communicate()
    assert len(servers) == 2
    assert actions(run) == actions(local)
    assert run.info["reproducible"] is True


def test_served_beside_a_latency_and_a_perturbation(tmp_path):
    """Both are of the run and not of the policy, wherever that acts."""
    with serving() as port:
        for name, ref, workers in (
            ("local", STEER, 1),
            ("one", f"ws://127.0.0.1:{port}", 1),
            ("two", f"ws://127.0.0.1:{port}", 2),
        ):
            envhub.evaluate(
                REACH,
                ref,
                episodes=2,
                workers=workers,
                latency="100ms",
                perturb={"action": 0.3},
                out=tmp_path / name,
            )
    local, *served = (
        {(r.task, r.episode): (r.trace, r.end_state) for r in open_run(tmp_path / name).records()}
        for name in ("local", "one", "two")
    )
    assert len(local) == 10
    assert served == [local, local]
