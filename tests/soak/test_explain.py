"""One change each between two runs: the layer that differs is named, and no other one."""

import json
import platform
import shutil
import subprocess
import sys

import pytest
from envhub_libero.tasks import suites
from support import libero_setup as libero
from support.explaining import (
    CASES,
    EXPLAINED,
    POLICY,
    REACH,
    REACH_CASES,
    check,
    evaluate,
    explain,
    findings,
)
from support.needs import needs_egl, needs_index, needs_libero, needs_metaworld, needs_sandbox
from support.paths import TESTS
from support.published import publish
from support.pythons import other_python

import envhub
from envhub.options import SourceOptions
from envhub.runtime.uv import find_uv

pytestmark = pytest.mark.soak


def test_every_change_alone_is_answered(tmp_path):
    a = evaluate(tmp_path / "a").directory
    for name, case in CASES.items():
        b = evaluate(tmp_path / name.replace(" ", "-"), case.change).directory
        check(explain(a, b), case)
        check(explain(b, a), case.reversed)


@needs_metaworld
@needs_egl
@pytest.mark.timeout(900)
def test_every_change_alone_is_answered_on_metaworld(tmp_path):
    a = evaluate(tmp_path / "a", REACH).directory
    for name, case in REACH_CASES.items():
        change = {**REACH, **case.change}
        b = evaluate(tmp_path / name.replace(" ", "-"), change).directory
        check(explain(a, b), case)


@needs_metaworld
@needs_egl
@needs_index
@pytest.mark.timeout(900)  # two runtimes are built
def test_metaworld_begins_otherwise_with_mujoco_3_3_7(tmp_path):
    a = evaluate(tmp_path / "a", REACH, runtime="isolated").directory
    found = explain(a, versions={"mujoco": "3.3.7"})
    assert findings(found) == {
        "question": "same",
        "versions": "differs",
        "first observation": "differs",
        "physics": "differs",
        "policy": "same",
        "luck": "not checked",
    }
    assert found.layers[1].words == "mujoco 3.3.0 in A, 3.3.7 there"
    assert "differs" not in [picture.finding for picture in found.pictures]
    (course,) = found.divergences
    assert (course.leaf.split("[")[0], course.apart) == ("environment_state", 0)
    assert course.reward is course.success is None
    assert "mujoco==3.3.7 " in found.pins


@needs_sandbox
def test_code_of_the_hub_needs_consent_and_the_rest_is_answered(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    ref = publish(local_hub, EXPLAINED, "me/explained")
    trusted = {"ref": ref, "trust_remote_code": True, "episodes": 1}
    a = evaluate(tmp_path / "a", **trusted).directory
    b = evaluate(tmp_path / "b", CASES["seed"].change, **trusted).directory
    found = explain(a, b)
    said = findings(found)
    assert (said["question"], said["versions"]) == ("differs", "same")
    assert said["physics"] == said["policy"] == "not checked"
    assert found.layers[3].command == f"envhub explain {a} {b} --trust-remote-code"
    check(explain(a, b, source=SourceOptions(trust_remote_code=True)), CASES["seed"])


@needs_libero
@needs_egl
def test_libero_is_darker_with_mujoco_3_3_7_and_moves_alike(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(libero.home()))
    monkeypatch.setenv("ENVHUB_LIBERO_ASSETS", str(libero.assets()))
    floor, table = (suites()[suite][0].name for suite in ("libero_object", "libero_10"))
    asked = {"suites": ["libero_object", "libero_10"], "tasks": [floor, table], "episodes": 1}
    runs = {
        runtime: envhub.evaluate(
            "libero",
            "random",
            max_steps=60,
            workers=1,
            runtime=runtime,
            out=tmp_path / out,
            **asked,
        )
        for runtime, out in (("isolated", "a"), ("mujoco-3.3.7", "b"))
    }
    a, b = (run.directory for run in runs.values())
    for found in (explain(a, b), explain(a, versions={"mujoco": "3.3.7"})):
        assert found.verdict.startswith("Pictures differ in libero_object: up to ")
        assert "levels darker with mujoco 3.3.7" in found.verdict
        by_task = {}
        for picture in found.pictures:
            by_task.setdefault(picture.task, []).append(picture)
        assert [p.finding for p in by_task[floor]] == ["differs"] * 2
        assert all(36 < p.mean < 41 for p in by_task[floor])
        assert "differs" not in [p.finding for p in by_task[table]]
        for course in found.divergences:  # equal to rounding, until a contact amplifies it
            assert course.reward is course.success is None
            assert course.apart is None or course.apart > 5
        said = findings(found)
        assert (said["question"], said["policy"]) == ("same", "same")
        assert "37 of 255 levels darker" in found.layers[1].details[0]
    assert "mujoco==3.3.7 " in found.pins


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """EnvHub installed in another Python: its command."""
    python = other_python()
    if python is None:
        pytest.skip("no other Python from 3.11 on is installed")
    place = tmp_path_factory.mktemp("other") / "venv"
    uv = find_uv()
    subprocess.run([uv, "venv", "--quiet", "--python", python, place], check=True)
    into = ["--quiet", "--python", place / "bin" / "python", "--editable", TESTS.parent]
    subprocess.run([uv, "pip", "install", *into], check=True)
    return place / "bin" / "envhub"


def by(command, *words):
    """Run a command of the other Python."""
    done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_index
@pytest.mark.parametrize("moves", [False, True])
def test_runs_of_two_interpreters_are_told_apart_from_both(moves, other, tmp_path):
    """What the other one recorded is compared with its actions as they are played here."""
    ref = tmp_path / "explained"
    shutil.copytree(EXPLAINED, ref)
    if moves:
        text = (ref / "env.py").read_text()
        minor = f"    import sys\n\n    NEW = sys.version_info.minor != {sys.version_info.minor}\n"
        (ref / "env.py").write_text(text.replace("    NEW = False\n", minor, 1))
        assert minor in (ref / "env.py").read_text()
    a = evaluate(tmp_path / "a", ref=ref)
    b = tmp_path / "b"
    asked = ["--episodes", "3", "--runtime", "here", "--workers", "1", "--out", b]
    weights = f"weights={tmp_path / 'a.txt'}"
    by(other, "eval", ref, "--policy", POLICY, "--policy-arg", weights, *asked)
    due = {
        "question": "same",
        "versions": "differs",
        "first observation": "not checked" if moves else "same",
        "physics": "differs" if moves else "same",
        "policy": "same",
        "luck": "same",
    }
    words = ["explain", "--episodes", "4", "--json", "--out", tmp_path / "page"]
    there = by(other, *words, a.directory, b)
    for found in (explain(a.directory, b).to_json(), json.loads(there)):
        layers = {layer["layer"]: layer for layer in found["layers"]}
        said = {name: layer["finding"] for name, layer in layers.items()}
        assert said == due, found
        assert f"Python {platform.python_version()} in A, " in layers["versions"]["words"]
        if moves:
            assert "has recorded its hash only, which is another one" in str(layers)
            assert "otherwise than" in layers["physics"]["words"]
            assert layers["physics"]["details"][0].startswith("floor:")
        else:
            assert found["verdict"].endswith("without an effect here.")
    backwards = findings(explain(b, a.directory))
    assert (backwards["physics"], backwards["policy"]) == (due["physics"], "same")
