"""Models of the Hub that checkpoints name: fetched as data and recorded, or named as missing."""

import json
import shutil

import pytest
from envhub_lerobot.checkpoint import find_checkpoint
from envhub_lerobot.hub_names import replace_names
from envhub_lerobot.models import (
    describe,
    obtain_models,
    pin_models,
    read_names,
    recorded_pins,
)
from envhub_lerobot.provider import provide
from msgspec.structs import replace
from support.run_json import info_of

from envhub.errors import ContractError, RunDirectoryError, SourceUnavailable, UsageError
from envhub.policies.find import read_policy
from envhub.policies.provider import Wanted
from envhub.results.comparable import check_same

WEIGHTS = (2).to_bytes(8, "little") + b"{}"
VLM = "maker/vlm"
FILES = {
    "config.json": b'{"model_type": "smolvlm"}',
    "tokenizer.json": b"{}",
    "merges.txt": b"a b",
    "spiece.model": b"\x00\x01",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"\x80pickle",
    "modeling.py": b"raise SystemExit",
    "template.jinja": b"{{ 1 }}",
}
DATA = ["config.json", "merges.txt", "spiece.model", "tokenizer.json"]


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint that names models."""

    def write(config, *steps):
        place = tmp_path / "checkpoint"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "config.json").write_text(json.dumps({"type": "smolvla", **config}))
        (place / "model.safetensors").write_bytes(WEIGHTS)
        listed = [{"registry_name": "tokenizer_processor", "config": step} for step in steps]
        (place / "policy_preprocessor.json").write_text(json.dumps({"steps": listed}))
        (place / "policy_postprocessor.json").write_text(json.dumps({"steps": []}))
        return find_checkpoint(f"lerobot:{place}")

    return write


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "cache"))
    return local_hub


@pytest.fixture
def vlm(hub):
    hub.create(VLM)
    return hub.commit(VLM, FILES)


def test_the_names_in_a_checkpoint(checkpoint):
    found = checkpoint(
        {"vlm_model_name": VLM, "tokenizer_name": None, "repo_id": "me/mine"},
        {"tokenizer_name": "maker/words"},
        {"tokenizer_name": VLM},
    )
    uses = {name: (use.where, use.weights) for name, use in read_names(found).items()}
    assert uses == {
        VLM: ("vlm_model_name of config.json", True),
        "maker/words": ("tokenizer_name of policy_preprocessor.json", False),
    }
    alone = checkpoint({"vlm_model_name": VLM, "load_vlm_weights": False})
    assert [use.weights for use in read_names(alone).values()] == [False]
    assert read_names(checkpoint({"repo_id": "me/mine"})) == {}


def test_a_model_is_pinned_to_what_the_hub_has_now(checkpoint, vlm, hub, tmp_path):
    found, said = checkpoint({"vlm_model_name": VLM}, {"tokenizer_name": VLM}), []
    args = pin_models(found, {"batch": 8}, tmp_path, message=said.append)
    assert args == {"batch": 8, "models": f"{VLM}@{vlm}"}
    assert said == [f"The checkpoint names the model {VLM}: using {VLM}@{vlm}."]
    hub.commit(VLM, {"tokenizer.json": b'{"newer": 1}'})
    assert pin_models(found, args, tmp_path, message=said.append) == args
    assert len(said) == 1


@pytest.mark.parametrize(
    ("weights", "files"), [(False, DATA), (True, sorted([*DATA, "model.safetensors"]))]
)
def test_only_data_is_fetched(checkpoint, vlm, hub, weights, files):
    found = checkpoint({"vlm_model_name": VLM, "load_vlm_weights": weights})
    model = obtain_models(found, {"models": f"{VLM}@{vlm}"})[VLM]
    assert sorted(path.name for path in model.directory.iterdir()) == files == sorted(model.files)
    assert (model.repo, model.commit) == (VLM, vlm)
    fetched = {request.path.rpartition("/")[2] for request in hub.requests}
    assert not fetched & {"pytorch_model.bin", "modeling.py", "template.jinja"}
    hashes, details = describe(found, {VLM: model})
    recorded = details["models"]
    assert recorded == {VLM: {"repo": VLM, "commit": vlm}}
    named = {f"{VLM}/{path}": value for path, value in model.files.items()}
    assert hashes == {**found.files, **named}
    assert recorded_pins(details) == {"models": f"{VLM}@{vlm}"}
    for commit in ("main", f"{vlm},{VLM}=/tmp", f"{vlm} "):  # of a run of somebody else
        assert recorded_pins({"models": {VLM: {**recorded[VLM], "commit": commit}}}) == {}


def test_the_process_gets_directories_instead_of_names(checkpoint, vlm):
    found = checkpoint({"vlm_model_name": VLM}, {"tokenizer_name": VLM})
    args = {"models": f"{VLM}@{vlm}", "threads": 1}
    source = provide(str(found.directory), Wanted(args=args))
    place = str(obtain_models(found, args)[VLM].directory)
    assert source.factory_args == {
        "directory": str(found.directory),
        "threads": 1,
        "models": {VLM: place},
        "checked": dict(found.checked),
    }
    fields = {"vlm_model_name": VLM, "tokenizer_name": None, "padding": 3}
    replaced = {**fields, "vlm_model_name": place}
    assert replace_names("config.json", fields, {VLM: place}) == replaced
    for name in ("other/one", "", "relative", "/etc"):
        with pytest.raises(
            ContractError, match=rf"'{name}' \(tokenizer_name of config.json\), and"
        ):
            replace_names("config.json", {**fields, "tokenizer_name": name}, {VLM: place})


def test_another_commit_is_another_question(checkpoint, vlm, hub, tmp_path):
    found = checkpoint({"vlm_model_name": VLM, "load_vlm_weights": False})

    def described(commit):
        policy = read_policy(f"lerobot:{found.directory}", {"models": f"{VLM}@{commit}"})
        said = policy.obtain(Wanted()).identify()
        return replace(info_of(), policy=replace(said, args={}))

    newer = hub.commit(VLM, {"tokenizer.json": b'{"newer": 1}'})
    check_same(described(vlm), described(vlm), tmp_path)
    with pytest.raises(RunDirectoryError, match=r"file of the policy maker/vlm/tokenizer.json"):
        check_same(described(vlm), described(newer), tmp_path)


def test_files_of_ones_own(checkpoint, hub, tmp_path):
    found = checkpoint({"vlm_model_name": "/somewhere/else", "load_vlm_weights": False})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/tokenizer.json").write_text("{}")
    args = pin_models(found, {"models": "/somewhere/else=mine"}, tmp_path)
    assert args == {"models": f"/somewhere/else={tmp_path / 'mine'}"}
    (model,) = obtain_models(found, args).values()
    assert (model.directory, model.repo, [*model.files]) == (
        tmp_path / "mine",
        None,
        ["tokenizer.json"],
    )
    assert hub.requests == []
    _, details = describe(found, obtain_models(found, args))
    assert recorded_pins(details) == {}  # a directory is named again
    (tmp_path / "mine/modeling.py").write_text("raise SystemExit")
    with pytest.raises(ContractError, match=r"has modeling.py, which is code"):
        obtain_models(found, args)


def test_another_repository_for_a_name(checkpoint, vlm, tmp_path):
    found = checkpoint({"vlm_model_name": "bert", "load_vlm_weights": False})
    args = {"models": f"bert={VLM}@{vlm}"}
    assert pin_models(found, args, tmp_path) == args
    assert obtain_models(found, args)["bert"].repo == VLM


@pytest.mark.parametrize("name", ["/etc", "../vlm", "bert", "~/vlm", "a/b/c", "a/b\x1b[0m", "./m"])
def test_names_that_are_no_repository_lead_nowhere(checkpoint, hub, tmp_path, name):
    with pytest.raises(ContractError) as caught:
        pin_models(checkpoint({"vlm_model_name": name}), {}, tmp_path)
    said = str(caught.value)
    assert said.startswith(f"The checkpoint names {name!r} (vlm_model_name of config.json), which")
    assert "--policy-arg models=NAME=DIRECTORY" in said
    assert said.isprintable()
    assert hub.requests == []


def test_a_model_that_is_not_available(checkpoint, hub, tmp_path):
    with pytest.raises(SourceUnavailable) as caught:
        pin_models(checkpoint({"vlm_model_name": VLM}), {}, tmp_path)
    said = str(caught.value)
    assert said.startswith(f"The checkpoint names the model {VLM} (vlm_model_name of config.json)")
    assert f"--policy-arg models={VLM}@<commit> or models={VLM}=DIRECTORY" in said


def test_weights_that_are_pickles_only(checkpoint, hub):
    hub.create(VLM)
    files = {"config.json": b"{}", "pytorch_model.bin": b"\x80pickle"}
    commit = hub.commit(VLM, files)
    with pytest.raises(SourceUnavailable, match=r"has pytorch_model.bin, a pickle, which can run"):
        obtain_models(checkpoint({"vlm_model_name": VLM}), {"models": f"{VLM}@{commit}"})


CODE = '{"AutoModel": "evil/code--modeling.Model"}'


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (f'{{"auto_map": {CODE}}}', "names code of another repository (auto_map)"),
        (f'{{"auto_m\\u0061p": {CODE}}}', "names code of another repository (auto_map)"),
        (f'{{"image": [{{"auto_map": {CODE}}}]}}', "names code of another repository (auto_map)"),
        ('{"auto_map": {"AutoModel": "/tmp/planted/code.Model"}}', "names code of another"),
        ('{"auto_map": {"AutoModel": ["sub/code.Model", null]}}', "names code of another"),
        ("{", "config.json cannot be read as JSON"),
        ("[" * 100_000, "config.json cannot be read as JSON"),
        ('{"auto_map": {"AutoModel": "modeling.Model"}}', None),  # there is no such file
    ],
)
def test_code_of_a_further_repository(checkpoint, hub, description, words):
    hub.create(VLM)
    commit = hub.commit(VLM, {"preprocessor_config.json": description.encode()})
    found = checkpoint({"vlm_model_name": VLM, "load_vlm_weights": False})
    if words is None:
        assert obtain_models(found, {"models": f"{VLM}@{commit}"})
        return
    with pytest.raises(ContractError) as caught:
        obtain_models(found, {"models": f"{VLM}@{commit}"})
    assert words in str(caught.value)


def test_a_model_that_names_a_further_one(checkpoint, hub, tmp_path):
    """transformers would load the model of `base_model_name_or_path` in its stead."""
    hub.create(VLM)
    commit = hub.commit(VLM, {"adapter_config.json": b'{"base_model_name_or_path": "/planted"}'})
    found = checkpoint({"vlm_model_name": VLM, "load_vlm_weights": False})
    with pytest.raises(ContractError, match=r"maker/vlm has adapter_config.json: it holds PEFT"):
        obtain_models(found, {"models": f"{VLM}@{commit}"})


def test_too_many_names(checkpoint, hub, tmp_path):
    found = checkpoint({}, *({"tokenizer_name": f"maker/words{k}"} for k in range(9)))
    with pytest.raises(ContractError, match=r"names 9 models of the Hub; 8 at most are fetched"):
        pin_models(found, {}, tmp_path)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "models must be text, found 3"),
        (f"{VLM}@main", "is neither a directory nor owner/repo@<commit>, with a commit of 40"),
        (f"{VLM}=./absent", "./absent is neither a directory nor"),
        ("maker/other=.", "does not name 'maker/other'. It names: maker/vlm."),
    ],
)
def test_arguments_that_cannot_be_meant(checkpoint, hub, tmp_path, given, words):
    with pytest.raises(UsageError) as caught:
        pin_models(checkpoint({"vlm_model_name": VLM}), {"models": given}, tmp_path)
    assert words in str(caught.value)
    assert hub.requests == []


def test_a_checkpoint_without_names_takes_no_models(checkpoint, hub, tmp_path):
    found = checkpoint({})
    assert pin_models(found, {"batch": 2}, tmp_path) == {"batch": 2}
    assert "models" not in provide(str(found.directory), Wanted()).details
    with pytest.raises(UsageError, match=r"does not name 'maker/vlm'. It names: nothing\."):
        pin_models(found, {"models": f"{VLM}@{'0' * 40}"}, tmp_path)
