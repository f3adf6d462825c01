"""LeRobot 0.6.1 on Python 3.12: what holds for 0.4.4 holds there too, and a small SmolVLA.

The environment is .venv-lerobot-06, or ENVHUB_TEST_LEROBOT_06 names its interpreter.
"""

import json
import subprocess
import sys

import pytest
from support import libero_setup as libero
from support.lerobot_runs import WALK, actions, evaluate, lerobots_own, made_once
from support.needs import needs_egl, needs_libero, needs_newest_lerobot, newest_lerobot_python
from support.paths import TESTS
from support.run_tools import envhub as command

import envhub

pytestmark = [pytest.mark.soak, needs_newest_lerobot]

VLM = "tests/tiny-vlm"
NAMES = ("act", "ensemble", "diffusion", "ddim", "smolvla")
TASK = "pick_up_the_black_bowl_between_the_plate_and_the_ramekin_and_place_it_on_the_plate"


@pytest.fixture(scope="module", autouse=True)
def _newest():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVHUB_TEST_LEROBOT", str(newest_lerobot_python()))
        yield


@pytest.fixture(scope="module")
def made(_newest, tmp_path_factory):
    place = made_once(tmp_path_factory, "lerobot_cases.py", f"{WALK}/env.py", *NAMES)
    answer = json.loads((place / "answer.json").read_text())
    assert "error" not in answer, answer["error"]
    return place, answer


def test_everything_that_holds_for_the_older_version():
    file = TESTS / "plugins/lerobot/test_policy.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        capture_output=True, text=True, check=False, cwd=TESTS.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_those_of_lerobots_own_loop(made, name):
    answer = made[1]
    assert answer["version"] == "0.6.1"
    assert answer[name]["equal"]
    assert answer[name]["varied"]
    assert answer[name]["batch"] == 1


def test_smolvla_looks_once_per_chunk_and_has_an_order_of_its_own(made):
    answer = made[1]["smolvla"]
    assert (answer["about"]["way"], answer["looks"]) == ("chunk", 6 * 3)
    assert answer["eight"]
    assert answer["near"] < 1e-4


@pytest.mark.parametrize("name", NAMES[:-1])
def test_runs_take_lerobots_own_actions(made, tmp_path, name):
    place, answer = made
    run = evaluate(place / name, tmp_path / "run", workers=3)
    assert {record.status for record in run.records()} == {"ok"}
    assert actions(run) == lerobots_own(place / f"{name}.npz")
    assert run.info["policy"]["about"] == answer[name]["about"]


def test_smolvla_of_the_hub_with_the_model_that_it_names(made, tmp_path, local_hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    place = made[0]
    vlm = publish(local_hub, VLM, place / "vlm")
    checkpoint = publish(local_hub, "user/smolvla", place / "smolvla")
    policy, out = f"user/smolvla@{checkpoint}", tmp_path / "run"
    run = evaluate(policy, out, workers=2)
    assert actions(run) == lerobots_own(place / "smolvla.npz")
    recorded = run.info["policy"]["provided"]["details"]["models"]
    assert (recorded[VLM]["repo"], recorded[VLM]["commit"]) == (VLM, vlm)
    assert run.info["policy"]["args"] == {"models": f"{VLM}@{vlm}"}

    # The model moves on; the run does not.
    local_hub.commit(VLM, {"tokenizer.json": "{}"})
    for again in (resume, go_on):
        lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
        (out / "episodes.jsonl").write_text("".join(lines[:2]))
        again(policy, out)
        assert actions(envhub.open_run(out)) == lerobots_own(place / "smolvla.npz")


@needs_libero
@needs_egl
def test_a_checkpoint_made_like_smolvla_libero_needs_no_option(
    tmp_path_factory, tmp_path, monkeypatch
):
    place = made_once(tmp_path_factory, "lerobot_arms.py", "smolvla")
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))  # where the runtime is
    words = ("--policy", f"lerobot:{place / 'libero-smolvla'}", "--policy-python")
    words += (newest_lerobot_python(), "--policy-arg", f"models={VLM}={place / 'vlm'}")
    words += ("--task", TASK, "--episodes", 1, "--max-steps", 60, "--workers", 1)
    words += ("--timeout", "start=600,act=600", "--env-arg", f"assets={libero.assets()}")
    words += ("--out", tmp_path / "run")
    answer = command("eval", "libero", *words)
    assert answer.code == 0, answer.err
    (record,) = envhub.open_run(tmp_path / "run").records()
    assert (record.status, record.steps) == ("ok", 60)
    looks = "The checkpoint executes 50 actions per look; published LIBERO runs use 10"
    state = "config.json says 6 numbers for observation.state, its statistics 8, as libero has"
    names = "Cameras as in training: image is camera1, image2 is camera2."
    for words in (looks, state, names):
        assert answer.err.count(words) == 1, answer.err
    assert "is left out" not in answer.err


def publish(hub, repo, directory):
    hub.create(repo)
    return hub.commit(repo, {path.name: path.read_bytes() for path in directory.iterdir()})


def resume(policy, out):
    subprocess.run([sys.executable, "-m", "envhub", "eval", "--resume", out], check=True)


def go_on(policy, out):
    evaluate(policy, out, workers=1, resume=True)
