"""LeRobot checkpoints in whole runs: killed, interrupted, from a Hub, on simulators.

Each process of a policy imports LeRobot, which takes most of the time.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from envhub_localhub import Large
from support import libero_setup as libero
from support.lerobot_runs import PATIENT, WALK, actions, evaluate, lerobots_own, made_once
from support.needs import lerobot_python, needs_egl, needs_lerobot, needs_libero, needs_metaworld
from support.processes import descendants, ending, kill, wait_until
from support.run_tools import counted, ended, envhub, outcomes, start

from envhub import open_run

pytestmark = [pytest.mark.soak, needs_lerobot, pytest.mark.timeout(3600)]

NAMES = ("act", "diffusion")
KINDS = ("act", "ensemble", "diffusion")


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    return made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py")


@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    return made_once(tmp_path_factory, "lerobot_arms.py")


# Other samplers and histories


def test_other_diffusions_are_those_of_lerobots_own_loop(tmp_path_factory):
    names = ("ddim", "back3")
    made = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", *names)
    answer = json.loads((made / "answer.json").read_text())
    assert "error" not in answer, answer["error"]
    told = {name: (answer[name]["equal"], answer[name]["varied"]) for name in names}
    assert told == dict.fromkeys(names, (True, True))
    assert answer["back3"]["about"]["way"] == "history"
    assert answer["back3"]["looks"] == 6 * 14
    assert answer["back3"]["needs"] == ["agent_pos", "pixels"]


# Checkpoints of LeRobot before 0.4


def test_old_checkpoints_act_by_the_old_formulas(tmp_path_factory):
    """One with deviations is in `make test`; the camera's name has an underscore."""
    names = ("old-act-ranges", "old-diffusion", "old-diffusion-deviations")
    made = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", *names)
    answer = json.loads((made / "answer.json").read_text())
    assert "error" not in answer, answer["error"]
    told = {name: (answer[name]["equal"], answer[name]["varied"]) for name in names}
    assert told == dict.fromkeys(names, (True, True))


# Whatever happens


@pytest.fixture(scope="module", params=NAMES)
def alone(request, walkers, tmp_path_factory):
    """A checkpoint, and what counts of its run with one worker."""
    place = walkers / request.param
    run = evaluate(place, tmp_path_factory.mktemp("alone") / "run", workers=1)
    assert {record.status for record in run.records()} == {"ok"}
    assert actions(run) == lerobots_own(place.with_suffix(".npz"))
    return place, outcomes(run.directory)


@pytest.mark.parametrize(("workers", "processes"), [(2, 1), (5, 1), (2, 2), (5, 2)])
def test_records_do_not_depend_on_workers_and_processes(alone, tmp_path, workers, processes):
    place, reference = alone
    run = evaluate(place, tmp_path / "run", workers=workers, policy_processes=processes)
    assert outcomes(run.directory) == reference
    assert actions(run) == lerobots_own(place.with_suffix(".npz"))


def test_an_ensemble_takes_lerobots_own_actions(walkers, tmp_path):
    """It acts for one episode at a time."""
    run = evaluate(walkers / "ensemble", tmp_path / "run", workers=2)
    assert {record.status for record in run.records()} == {"ok"}
    assert actions(run) == lerobots_own(walkers / "ensemble.npz")


@pytest.mark.parametrize(("part", "processes"), [("env", 1), ("policy", 1), ("policy", 2)])
def test_records_do_not_depend_on_what_is_killed(alone, tmp_path, part, processes):
    place, reference = alone
    killed = []

    def on_episode(record):
        if not killed:
            killed.append(victim(os.getpid(), part))
            kill(killed[0])

    run = evaluate(
        place,
        tmp_path / "run",
        workers=3,
        policy_processes=processes,
        retries=2,
        on_episode=on_episode,
    )
    assert killed
    assert outcomes(run.directory) == reference
    assert actions(run) == lerobots_own(place.with_suffix(".npz"))


def victim(host, part):
    """A process below the host that plays a part: the innermost one, which its guards wait for."""
    below = descendants(host)
    parents = {parent for parent, _ in below.values()}
    lines = {pid: line for pid, (_, line) in below.items() if pid not in parents}
    return next(pid for pid, line in lines.items() if re.search(rf" {part} \d+ {host} ", line))


def test_an_interrupted_run_is_resumed_with_other_numbers(alone, tmp_path):
    place, reference = alone
    out = tmp_path / "run"
    question = (
        *("eval", WALK, "--policy", f"lerobot:{place}", "--policy-python", lerobot_python()),
        *("--episodes", 6, "--seeding", "shared", "--workers", 2, "--policy-processes", 2),
        *("--out", out),
        *("--timeout", f"start={PATIENT.start},act={PATIENT.act}"),
    )
    with ending(start(*question)) as command:
        wait_until(lambda: counted(out) or command.poll() is not None)
        command.send_signal(signal.SIGINT)
        answer = ended(command)
    assert answer.code in (0, 130), answer  # the others may have ended meanwhile
    kept = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(kept[:2]))
    answer = envhub("eval", "--resume", out, "--workers", 1, "--policy-processes", 1)
    assert answer.code == 0, answer
    assert outcomes(out) == reference
    assert actions(open_run(out)) == lerobots_own(place.with_suffix(".npz"))


# From a Hub, on simulators


@pytest.fixture
def publish(arms, local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))

    def commit(name):
        local_hub.create(f"user/{name}")
        files = {path.name: path.read_bytes() for path in (arms / name).iterdir()}
        large = {n: Large(data) for n, data in files.items() if n.endswith(".safetensors")}
        return f"user/{name}@{local_hub.commit(f'user/{name}', {**files, **large})}"

    return commit


def check(run, reference, kind, steps):
    assert [(record.status, record.steps) for record in run.records()] == [("ok", steps)] * 2
    policy = run.info["policy"]
    assert "{repo}@{commit}".format(**policy["provided"]["details"]) == reference
    assert policy["path"] == f"lerobot:{reference}"
    assert policy["about"]["way"] == {"act": "chunk", "ensemble": "swap"}.get(kind, "history")


@needs_metaworld
@pytest.mark.parametrize("kind", KINDS)
def test_on_metaworld(publish, tmp_path, kind):
    reference = publish(f"metaworld-{kind}")
    run = evaluate(
        reference,
        tmp_path / "run",
        "metaworld",
        tasks="reach-v3",
        episodes=2,
        max_steps=12,
        env_args={"size": 64},
    )
    check(run, reference, kind, 12)
    place = (
        "import importlib.util as u; print(u.find_spec('lerobot').submodule_search_locations[0])"
    )
    package = Path(subprocess.check_output([lerobot_python(), "-c", place], text=True).strip())
    known = json.loads((package / "envs/metaworld_config.json").read_text())
    sentence = known["TASK_DESCRIPTIONS"]["reach-v3"]
    assert run.info["policy"]["instructions"] == {"reach-v3": sentence}
    assert run.info["plan"]["instructions"] == {}


@needs_libero
@needs_egl
@pytest.mark.parametrize("kind", KINDS)
def test_on_libero(publish, tmp_path, monkeypatch, kind):
    reference = publish(f"libero-{kind}")
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))  # where the runtime is
    monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))
    try:
        run = evaluate(
            reference,
            tmp_path / "run",
            "libero",
            tasks="pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate",
            episodes=2,
            max_steps=12,
            env_args={"size": 64},
        )
    finally:
        shutil.rmtree(libero.home() / "checkpoints", ignore_errors=True)
    check(run, reference, kind, 12)
