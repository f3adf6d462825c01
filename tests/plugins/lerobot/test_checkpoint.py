"""The files of checkpoints, before anything is loaded; no LeRobot is needed."""

import json
import os
import subprocess
import sys

import pytest
from envhub_lerobot.checkpoint import find_checkpoint
from envhub_lerobot.provider import provide
from envhub_lerobot.reading import private_copy, read_contents
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
STATE = "policy_preprocessor_step_0_normalizer.safetensors"

PRE, POST, CONFIG = "policy_preprocessor.json", "policy_postprocessor.json", "config.json"
HEADER = b'{"normalize_inputs.buffer_observation_state.mean":{"dtype":"F32","shape":[1]}}'
OLD = len(HEADER).to_bytes(8, "little") + HEADER
"""Weights with statistics among them, as LeRobot before 0.4 saved them."""


def steps(*entries):
    """The JSON of a processor."""
    return json.dumps({"name": "p", "steps": entries}).encode()


GOOD = {
    "config.json": b'{"type": "act"}',
    "model.safetensors": WEIGHTS,
    "policy_preprocessor.json": steps(
        {"registry_name": "normalizer_processor", "config": {"eps": 1e-8}, "state_file": STATE}
    ),
    "policy_postprocessor.json": steps({"registry_name": "device_processor", "config": {}}),
    STATE: WEIGHTS,
    "README.md": b"# A checkpoint",
}
READ = ("config.json", "policy_preprocessor.json", "policy_postprocessor.json", STATE)
"""Read at once, and compared by their hashes."""


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
    checked = dict(found.checked)
    assert answer.factory_args == {"directory": str(place), "batch": 8, "checked": checked}
    assert checked.pop("model.safetensors").startswith(f"stat:{len(WEIGHTS)}:")
    assert checked == {name: found.files[name] for name in GOOD if name in READ}
    assert (answer.place, answer.args, answer.files) == (str(place), {"batch": 8}, found.files)


def test_a_changed_file_has_another_hash(checkpoint):
    place = checkpoint()
    before = find_checkpoint(f"lerobot:{place}").files
    (place / "config.json").write_bytes(b'{"type": "ACT"}')
    os.utime(place / "config.json", (1, 1))
    assert find_checkpoint(f"lerobot:{place}").files != before


def step(name, state=None, **config):
    entry = {"registry_name": name, "config": config}
    return steps(entry if state is None else {**entry, "state_file": state})


def config(**fields):
    return json.dumps({"type": "act", **fields}).encode()


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
            ["no policy_preprocessor.json", "without normalization", "Save it again with LeRobot"],
        ),
        ({PRE: None, POST: None}, ContractError, ["no statistics among its weights"]),
        (
            {PRE: None, POST: None, "config.json": b'{"type": "pi0"}', "model.safetensors": OLD},
            ContractError,
            ["of type pi0, for which", "migrate_policy_normalization --pretrained-path"],
        ),
        ({"policy_postprocessor.json": None}, ContractError, ["no policy_postprocessor.json"]),
        ({"policy_preprocessor.json": b'{"steps": 3}'}, ContractError, ["no list of steps"]),
        (
            {"policy_postprocessor.json": steps({"class": "os.system"})},
            ContractError,
            ['names a Python class, "os.system"', "registered steps"],
        ),
    ],
)
def test_checkpoints_that_are_none(checkpoint, files, error, words):
    with pytest.raises(error) as caught:
        find_checkpoint(f"lerobot:{checkpoint(files=files)}")
    assert [word for word in words if word not in str(caught.value)] == []


DEEP = [[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            PRE,
            step("reward_classifier_processor", pretrained_path="/tmp/planted"),
            ['policy_preprocessor.json has the step "reward_classifier_processor", which is not'],
        ),
        (POST, step("reward_classifier_processor", pretrained_path="planted"), ["has the step"]),
        (POST, step("action_tokenizer_processor", trust_remote_code=True), ["has the step"]),
        (PRE, step("groot_eagle_encode_v3", tokenizer_assets_repo="a/b"), ["has the step"]),
        (PRE, step("\x1b[31m"), ['has the step "\\u001b[31m"']),
        (
            PRE,
            step("tokenizer_processor", trust_remote_code=True),
            ['step tokenizer_processor has the field "trust_remote_code", which is not one'],
        ),
        (PRE, step("normalizer_processor", stats={}), ['has the field "stats"']),
        (PRE, step("device_processor", device="../x"), ['has "../x" for device, which it cannot']),
        (PRE, step("device_processor", device=3), ["has 3 for device"]),
        (PRE, step("normalizer_processor", eps="1"), ['has "1" for eps']),
        (PRE, step("rename_observations_processor", rename_map={"/a": "b"}), ["for rename_map"]),
        (PRE, step("rename_observations_processor", rename_map=DEEP), ["for rename_map"]),
        (PRE, step("device_processor", state=f"../checkpoint/{STATE}"), ["names the state file"]),
        (PRE, step("device_processor", state="/etc/passwd"), ["names the state file"]),
        (PRE, step("device_processor", state="absent.safetensors"), ["not a file of the check"]),
        (PRE, step("device_processor", state="model.safetensors"), ["names the state file"]),
        (PRE, step("device_processor", state=CONFIG), ["names the state file"]),
        (PRE, steps({"registry_name": "device_processor", "hook": 1}), ['has the key "hook"']),
        (PRE, steps({"registry_name": "device_processor", "config": []}), ["not an object"]),
        (PRE, steps(*[{"registry_name": "device_processor"}] * 33), ["33 steps; 32 at most"]),
        (CONFIG, config(later="./planted"), ['has "./planted" for later, which could name a file']),
        (CONFIG, config(later={"a": [{"b": "owner/repo"}]}), ['has "owner/repo" for later']),
        (CONFIG, config(later={"~root": 1}), ['has "~root" for later']),
        (CONFIG, config(attn_implementation="a/kernel"), ["for attn_implementation"]),
        (CONFIG, config(tokenizer_name=["a/b"]), ['has "a/b" for tokenizer_name']),
        (CONFIG, config(use_peft=True), ["holds PEFT adapters for another model"]),
        ("adapter_config.json", b'{"base_model_name_or_path": "/x"}', ["holds PEFT adapters"]),
    ],
)
def test_checkpoints_that_are_more_than_data(checkpoint, name, content, words):
    place = checkpoint(files={name: content})
    for load in (find_checkpoint, envhub.load_lerobot_policy):
        with pytest.raises(ContractError) as caught:
            load(f"lerobot:{place}" if load is find_checkpoint else place)
        said = str(caught.value)
        assert [word for word in words if word not in said] == []
        assert said.isprintable()


def test_an_old_checkpoint_needs_no_processors(checkpoint):
    config = b'{"type": "vqbet", "mlp_hidden_dim": 1024, "n_obs_steps": 5}'
    files = {PRE: None, POST: None, STATE: None, CONFIG: config, "model.safetensors": OLD}
    found = find_checkpoint(f"lerobot:{checkpoint(files=files)}")
    assert sorted(found.files) == [CONFIG, "model.safetensors"]
    assert found.checked[PRE] == found.checked[POST] == "absent"
    contents = read_contents(found.directory)
    assert contents.old
    assert contents.config == {"type": "vqbet", "n_obs_steps": 5}  # nothing read the other field
    for name in (PRE, POST):  # one that appears later was not checked
        (found.directory / name).write_bytes(GOOD[name].replace(STATE.encode(), b"x.safetensors"))
    (found.directory / "x.safetensors").write_bytes(WEIGHTS)
    with (
        pytest.raises(ContractError, match=r"policy_preprocessor.json changed while it was loaded"),
        private_copy(read_contents(found.directory), found.checked, {}),
    ):
        pass


def test_fields_that_only_training_reads_are_left_out(checkpoint):
    fields = {"repo_id": "me/mine", "pretrained_path": "/home/me/x", "output_dir": "./out"}
    place = checkpoint(files={CONFIG: config(chunk_size=8, license=None, **fields)})
    assert find_checkpoint(f"lerobot:{place}")
    assert read_contents(place).config == {"type": "act", "chunk_size": 8}


@pytest.mark.parametrize("name", [CONFIG, PRE, STATE, "model.safetensors"])
def test_a_file_that_changes_after_it_was_checked(checkpoint, name):
    found = find_checkpoint(f"lerobot:{checkpoint()}")
    contents = read_contents(found.directory)
    with private_copy(contents, found.checked, {}) as copy:
        assert sorted(path.name for path in copy.iterdir()) == sorted(found.checked)
        assert copy.stat().st_mode & 0o077 == 0
    assert not copy.exists()
    path = found.directory / name
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(data + b" " if path.suffix == ".json" else data[:-2] + b"[]")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as somebody would who hides it
    changed = rf"{name} changed while it was loaded; run the command again\."
    with (
        pytest.raises(ContractError, match=changed),
        private_copy(read_contents(found.directory), found.checked, {}),
    ):
        pass


def test_weights_that_change_while_they_are_loaded(checkpoint):
    found = find_checkpoint(f"lerobot:{checkpoint()}")
    contents, weights = read_contents(found.directory), found.directory / "model.safetensors"

    def load():
        with private_copy(contents, found.checked, {}) as copy:
            weights.rename(weights.with_name("old"))
            weights.write_bytes(b"other")
            assert (copy / weights.name).read_bytes() == WEIGHTS  # what was opened, not the name
            weights.with_name("old").write_bytes(b"!")

    with pytest.raises(ContractError, match=r"model.safetensors changed while it was loaded"):
        load()


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
    del files["model.safetensors"], files[STATE]
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
        ({"models": ["a"]}, r"models must be a mapping of names to directories, found \['a'\]"),
        ({"models": {"a": "."}}, "the checkpoint does not name 'a'. It names: nothing."),
    ],
)
def test_wrong_arguments_of_a_program(checkpoint, arguments, words):
    with pytest.raises(UsageError, match=words):
        envhub.load_lerobot_policy(checkpoint(), **arguments)


def test_a_program_says_where_models_are(checkpoint, tmp_path):
    place = checkpoint(files={CONFIG: config(vlm_model_name="maker/vlm", load_vlm_weights=False)})
    line = r"load_lerobot_policy\(\.\.\., models={'maker/vlm': DIRECTORY}\)"
    with pytest.raises(
        UsageError, match=rf"'maker/vlm' \(vlm_model_name of config.json\), .*{line}"
    ):
        envhub.load_lerobot_policy(place)
    with pytest.raises(
        UsageError, match=r"absent is not a directory\. Check the path of maker/vlm"
    ):
        envhub.load_lerobot_policy(place, models={"maker/vlm": tmp_path / "absent"})
    (tmp_path / "vlm").mkdir()
    (tmp_path / "vlm/tokenizer.json").write_text("{}")
    (tmp_path / "vlm/code.py").write_text("raise SystemExit")
    with pytest.raises(ContractError, match=r"has code.py, which is code"):
        envhub.load_lerobot_policy(place, models={"maker/vlm": tmp_path / "vlm"})
    (tmp_path / "vlm/code.py").unlink()
    with pytest.raises(RuntimeUnavailable, match="has no LeRobot"):
        envhub.load_lerobot_policy(place, models={"maker/vlm": tmp_path / "vlm"})


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
