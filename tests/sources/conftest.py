"""A Hub with one repository."""

import pytest
from support.fetching import FILES

from envhub.refs import HubRef


@pytest.fixture
def hub(local_hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    local_hub.create("me/env")
    return local_hub


@pytest.fixture
def ref(hub):
    return HubRef("me", "env", hub.commit("me/env", FILES))
