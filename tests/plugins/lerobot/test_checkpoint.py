"""The files of checkpoints, before anything is loaded; no LeRobot is needed."""

import json
import os
import subprocess
import sys

import pytest
from envhub_lerobot.checkpoint import find_checkpoint
from envhub_lerobot.provider import provide
from support.paths import ASSETS

import envhub
from envhub.errors import (
    ContractError,
    ExitCode,
    RuntimeUnavailable,
    SourceUnavailable,
    UsageError,
)
from envhub.policies.provider import Wanted

WEIGHTS = (2).to_bytes(8, "little") + b"{}"
STEPS = json.dumps({"name": "p", "steps": [{"registry_name": "device_processor", "config": {}}]})
GOOD = {
    "config.json": b'{"type": "act"}',
    "model.safetensors": WEIGHTS,
    "policy_preprocessor.json": STEPS.encode(),
    "policy_postprocessor.json": STEPS.encode(),
    "policy_preprocessor_step_0_normalizer.safetensors": WEIGHTS,
    "README.md": b"# A checkpoint",
}


@pytest.fixture
def checkpoint(tmp_path):
    def write(**changes):
        place = tmp_path / "checkpoint"
        place.mkdir()
        for name, content in {**GOOD, **changes.get("files", {})}.items():
            if content is not None:
                (place / name).write_bytes(content)
        return place

    return write


def test_a_checkpoint_is_the_hashes_of_its_files(checkpoint, monkeypatch):
    place = checkpoint()
    found = find_checkpoint(f"lerobot:{place}")
    assert sorted(found.files) == sorted(name for name in GOOD if name != "README.md")
    assert all(digest.startswith("sha256:") for digest in found.files.values())
    monkeypatch.chdir(place.parent)
    monkeypatch.setenv("HOME", str(place.parent))
    for text in ("lerobot:./checkpoint", "lerobot:checkpoint", "lerobot:~/checkpoint"):
        assert find_checkpoint(text) == found
    assert find_checkpoint(f"lerobot:{found.place}") == found
    answer = provide("./checkpoint", Wanted(args={"batch": 8}))
    assert answer.factory_args == {"directory": str(place), "batch": 8}
    assert (answer.place, answer.args, answer.files) == (str(place), {"batch": 8}, found.files)


def test_a_changed_file_has_another_hash(checkpoint):
    place = checkpoint()
    before = find_checkpoint(f"lerobot:{place}").files
    (place / "config.json").write_bytes(b'{"type": "ACT"}')
    os.utime(place / "config.json", (1, 1))
    assert find_checkpoint(f"lerobot:{place}").files != before


def named_class(name):
    return json.dumps({"steps": [{"class": name}]}).encode()


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({"config.json": None}, UsageError, ["has no config.json", "pretrained_model"]),
        ({"config.json": b"{"}, ContractError, ["config.json cannot be read as JSON"]),
        ({"config.json": b"[]"}, ContractError, ["config.json is not a JSON object"]),
        ({"config.json": b"\xff"}, ContractError, ["config.json cannot be read as JSON"]),
        ({"config.json": b"{}"}, ContractError, ["names no type of policy"]),
        ({"model.safetensors": None}, UsageError, ["has no model.safetensors."]),
        (
            {"model.safetensors": None, "pytorch_model.bin": b""},
            ContractError,
            ["has pytorch_model.bin, a pickle, which can run code"],
        ),
        (
            {"model.safetensors": None, "adapter_config.json": b"{}"},
            ContractError,
            ["holds PEFT adapters", "Merge them"],
        ),
        (
            {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\n"},
            ContractError,
            ["is a Git LFS pointer", "git lfs pull"],
        ),
        ({"model.safetensors": b"\x80\x04pickled, really"}, ContractError, ["not a safetensors"]),
        (
            {"policy_preprocessor.json": None},
            ContractError,
            ["without normalization", "migrate_policy_normalization --pretrained-path"],
        ),
        ({"policy_postprocessor.json": None}, ContractError, ["no policy_postprocessor.json"]),
        ({"policy_preprocessor.json": b'{"steps": 3}'}, ContractError, ["no list of steps"]),
        (
            {"policy_postprocessor.json": named_class("os.system")},
            ContractError,
            ["names a Python class, 'os.system'", "registered steps"],
        ),
    ],
)
def test_checkpoints_that_are_none(checkpoint, files, error, words):
    with pytest.raises(error) as caught:
        find_checkpoint(f"lerobot:{checkpoint(files=files)}")
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lerobot:", ["names no checkpoint"]),
        ("lerobot:./absent", ["lerobot:absent is not a directory. Check the path."]),
        ("lerobot:models/mine", ["repository of the Hub", "write lerobot:./models/mine"]),
        ("lerobot:a b@c", ["is not a checkpoint: write lerobot:owner/repo@<commit>"]),
    ],
)
def test_names_that_are_none(tmp_path, monkeypatch, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models/mine").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        find_checkpoint(text)
    assert [word for word in words if word not in str(caught.value)] == []


# Of the Hub


@pytest.fixture
def publish(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "cache"))
    local_hub.create("user/checkpoint")

    def commit(files):
        return local_hub.commit("user/checkpoint", files)

    return commit


def test_a_checkpoint_of_the_hub(publish, checkpoint):
    commit = publish({**GOOD, "training_state.pt": b"pickled", "code.py": b"raise SystemExit"})
    found = find_checkpoint(f"lerobot:user/checkpoint@{commit}")
    assert (found.repo, found.commit) == ("user/checkpoint", commit)
    assert found.place == f"user/checkpoint@{commit}"
    assert found.files == find_checkpoint(f"lerobot:{checkpoint()}").files
    assert sorted(p.name for p in found.directory.iterdir()) == sorted(found.files)
    details = provide(found.place, Wanted()).details
    assert details == {"repo": "user/checkpoint", "commit": commit}


@pytest.mark.parametrize("revision", ["", "@main"])
def test_a_checkpoint_that_can_move(publish, revision):
    commit = publish(GOOD)
    with pytest.raises(UsageError, match=f"now: lerobot:user/checkpoint@{commit}"):
        find_checkpoint(f"lerobot:user/checkpoint{revision}")


def test_pickles_of_the_hub_are_never_fetched(publish, tmp_path):
    files = {**GOOD, "pytorch_model.bin": b"pickled"}
    del files["model.safetensors"], files["policy_preprocessor_step_0_normalizer.safetensors"]
    with pytest.raises(SourceUnavailable, match=r"has pytorch_model.bin, a pickle, which can run"):
        find_checkpoint(f"lerobot:user/checkpoint@{publish(files)}")
    assert not list(tmp_path.glob("cache/**/*.bin"))


def test_a_checkpoint_that_does_not_exist(publish):
    with pytest.raises(SourceUnavailable, match="user/absent"):
        find_checkpoint(f"lerobot:user/absent@{'0' * 40}")


def test_arguments_of_a_checkpoint(checkpoint):
    with pytest.raises(UsageError, match="--policy-arg bach is not an argument of a checkpoint"):
        provide(str(checkpoint()), Wanted(args={"bach": 8}))


def test_a_program_without_lerobot(checkpoint):
    place = checkpoint()
    line = r"Run: .* -m pip install 'lerobot>=0.6'"
    if sys.version_info < (3, 12):
        line = rf'another one: evaluate\(..., "lerobot:{place}", policy_python=PATH\)'
    with pytest.raises(RuntimeUnavailable, match=rf"has no LeRobot\. .*{line}"):
        envhub.load_lerobot_policy(place)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch": 0}, "batch must be a whole number from 1 to 65536, found 0"),
        ({"threads": "2"}, "threads must be a whole number from 1 to 65536, found '2'"),
        ({"device": 1}, "device must be text such as 'cuda:0', found 1"),
        ({"rename": ["a"]}, r"rename must be a mapping of names to names, found \['a'\]"),
        ({"rename": {"a": 1}}, "rename must be a mapping of names to names, found {'a': 1}"),
    ],
)
def test_wrong_arguments_of_a_program(checkpoint, arguments, words):
    with pytest.raises(UsageError, match=words):
        envhub.load_lerobot_policy(checkpoint(), **arguments)


def test_a_program_that_names_no_checkpoint(tmp_path):
    with pytest.raises(UsageError, match="absent is not a directory"):
        envhub.load_lerobot_policy(tmp_path / "absent")
    with pytest.raises(UsageError, match="directory must be the directory of a checkpoint"):
        envhub.load_lerobot_policy(None)


def test_an_interpreter_without_lerobot(checkpoint, tmp_path):
    """EnvHub's own environment has none: LeRobot 0.4.4 wants an older client of the Hub."""
    policy = f"lerobot:{checkpoint()}"
    with pytest.raises(RuntimeUnavailable, match=r"lerobot>=0.4.4 .*--policy-python PATH"):
        envhub.evaluate(f"{ASSETS}/run_walk", policy, out=tmp_path / "run")
    with pytest.raises(RuntimeUnavailable, match=r"lerobot \(none\); .*pip install 'lerobot>=0.4"):
        envhub.evaluate(
            f"{ASSETS}/run_walk", policy, out=tmp_path / "run", policy_python=sys.executable
        )
    assert not (tmp_path / "run").exists()
    command = ["eval", f"{ASSETS}/run_walk", "--policy", policy, "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "envhub", *command], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == ExitCode.RUNTIME
    assert "--policy-python PATH" in done.stderr
    assert "Traceback" not in done.stderr
