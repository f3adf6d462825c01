"""One change each between two runs: the layer that differs is named, and no other one."""

import pytest
from envhub_libero.tasks import suites
from support import libero_setup as libero
from support.explaining import CASES, EXPLAINED, check, evaluate, explain, findings
from support.needs import needs_egl, needs_libero, needs_sandbox
from support.published import publish

import envhub
from envhub.options import SourceOptions

pytestmark = pytest.mark.soak


def test_every_change_alone_is_answered(tmp_path):
    a = evaluate(tmp_path / "a").directory
    for name, case in CASES.items():
        b = evaluate(tmp_path / name.replace(" ", "-"), case.change).directory
        check(explain(a, b), case)
        check(explain(b, a), case.reversed)


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
