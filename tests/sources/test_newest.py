"""A newer commit than the pinned one: asked once a day, and only where there is a network."""

import json

import pytest

from envhub.files import cache_home
from envhub.refs import parse
from envhub.sources.newest import newer_commit


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ENVHUB_OFFLINE", raising=False)
    local_hub.create("me/env")
    return local_hub


def test_it_is_asked_once_a_day(hub, monkeypatch):
    first = hub.commit("me/env", {"env.py": "1"})
    second = hub.commit("me/env", {"env.py": "2"})
    monkeypatch.setenv("ENVHUB_OFFLINE", "1")
    assert newer_commit(parse(f"me/env@{first}")) is None
    assert hub.requests == []
    monkeypatch.delenv("ENVHUB_OFFLINE")
    for _ in range(3):
        assert newer_commit(parse(f"me/env@{first}")) == second
        assert newer_commit(parse(f"me/env@{second}")) is None
        assert newer_commit(parse("me/env@main")) is None
        assert len(hub.requests) == 1
    third = hub.commit("me/env", {"env.py": "3"})
    assert newer_commit(parse(f"me/env@{first}")) == second
    (kept,) = (cache_home() / "newest").iterdir()
    answer = json.loads(kept.read_text())
    for old in (json.dumps(answer | {"asked": answer["asked"] - 86_401}), "damaged", "{}"):
        kept.write_text(old)
        asked = len(hub.requests)
        assert newer_commit(parse(f"me/env@{first}")) == third
        assert len(hub.requests) == asked + 1


def test_a_hub_that_does_not_answer_is_left_alone_for_a_day(hub):
    missing = parse(f"me/other@{'a' * 40}")
    for _ in range(2):
        assert newer_commit(missing) is None
        assert len(hub.requests) == 1
