"""One change each between two runs: the layer that differs is named, and no other one."""

import pytest
from support.explaining import CASES, EXPLAINED, check, evaluate, explain, findings
from support.needs import needs_sandbox
from support.published import publish

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
