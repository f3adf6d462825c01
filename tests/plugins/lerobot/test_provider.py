"""What the provider of `lerobot:` answers; no LeRobot is needed."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from envhub_lerobot.provider import LEROBOT, provide
from support.paths import ASSETS

from envhub.policies.find import read_policy
from envhub.policies.provider import Wanted
from envhub.results import format1

SIZE = 32 * 2**20
"""Bytes of the weights; all other files of a checkpoint have a few hundred."""
STEPS = json.dumps({"name": "p", "steps": []}).encode()
FILES = {
    "config.json": b'{"type": "act"}',
    "model.safetensors": (2).to_bytes(8, "little") + b"{}" + bytes(SIZE - 10),
    "policy_preprocessor.json": STEPS,
    "policy_postprocessor.json": STEPS,
}
VLM = "maker/vlm"


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "cache"))
    return local_hub


def write(place: Path, **changes: bytes) -> Path:
    place.mkdir()
    for name, content in {**FILES, **changes}.items():
        (place / name).write_bytes(content)
    return place


def bytes_read() -> int:
    """The bytes that this process has read so far, from files and sockets."""
    found = re.search(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("stored", [False, True])
def test_the_bytes_of_a_checkpoint_are_read_once(tmp_path, hub, stored):
    """From obtaining it to saying what it is, as a run does it."""
    place = str(write(tmp_path / "checkpoint"))
    if stored:
        hub.create("user/checkpoint")
        place = f"user/checkpoint@{hub.commit('user/checkpoint', FILES)}"
        provide(place, Wanted())  # fetches it
    before = bytes_read()
    policy = read_policy(f"lerobot:{place}").obtain(Wanted())
    assert policy.identify() == policy.identify()
    policy.factory(None, None)
    assert SIZE <= bytes_read() - before < 1.5 * SIZE


def test_what_a_run_records(tmp_path):
    place = write(tmp_path / "checkpoint")
    said = read_policy(f"lerobot:{place}", {"batch": 2}).obtain(Wanted()).identify()
    assert (said.kind, said.path, said.args) == ("provided", f"lerobot:{place}", {"batch": 2})
    assert said.provided.package == "envhub-lerobot"
    assert said.provided.version == metadata.version("envhub-lerobot")
    assert sorted(said.provided.files) == sorted(FILES)
    assert said.provided.details == {"repo": None, "commit": None}
    assert provide(str(place), Wanted()).requires == (LEROBOT,)


def test_a_run_that_has_begun_keeps_the_commits_of_its_models(tmp_path, hub):
    hub.create(VLM)
    first = hub.commit(VLM, {"tokenizer.json": b"{}"})
    config = json.dumps({"type": "smolvla", "tokenizer_name": VLM}).encode()
    place = write(tmp_path / "checkpoint", **{"config.json": config})
    policy = read_policy(f"lerobot:{place}")
    begun = policy.obtain(Wanted()).identify()
    assert begun.args == {"models": f"{VLM}@{first}"}
    second = hub.commit(VLM, {"tokenizer.json": b'{"newer": 1}'})
    assert policy.obtain(Wanted(begun=begun.provided)).identify() == begun
    assert policy.obtain(Wanted()).identify().args == {"models": f"{VLM}@{second}"}
    (place / "policy_postprocessor.json").write_bytes(STEPS + b" ")  # another checkpoint
    changed = policy.obtain(Wanted(begun=begun.provided)).identify()
    assert changed.args == {"models": f"{VLM}@{second}"}


def test_a_run_of_format_1_keeps_its_commits_too(tmp_path, hub):
    """Runs from before there were providers have a section `checkpoint` only."""
    hub.create(VLM)
    first = hub.commit(VLM, {"tokenizer.json": b"{}"})
    config = json.dumps({"type": "smolvla", "tokenizer_name": VLM}).encode()
    policy = read_policy(f"lerobot:{write(tmp_path / 'old', **{'config.json': config})}")
    info = policy.obtain(Wanted()).identify()
    own = {name: digest for name, digest in info.provided.files.items() if "/" not in name}
    files = {"tokenizer.json": info.provided.files[f"{VLM}/tokenizer.json"]}
    model = {"repo": VLM, "commit": first, "files": files}
    old = json.loads((ASSETS / "runs_format1/steer/run.json").read_text())
    old["policy"]["checkpoint"] = {
        "repo": None, "commit": None, "files": own, "models": {VLM: model},
    }  # fmt: skip
    hub.commit(VLM, {"tokenizer.json": b'{"newer": 1}'})
    begun = format1.upgrade(old).policy.provided
    again = policy.obtain(Wanted(begun=begun)).identify()
    assert again == info


def test_the_half_that_acts_imports_nothing_of_the_host():
    """The interpreter with LeRobot has neither the Hub's client nor uv, and needs neither."""
    code = "import sys, envhub_lerobot.policy; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "envhub_lerobot.acting" in imported
    hosts = {"envhub.policies", "envhub.sources", "envhub.runtime", "huggingface_hub", "packaging"}
    assert imported & hosts == set()
