"""What attacks need: a Hub of their own, a home with planted secrets, and a sandbox."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.needs import SANDBOXES, needs_sandbox
from support.notes import bring_notes


@pytest.fixture
def hub(local_hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A Hub on loopback; this process and its children use it."""
    monkeypatch.setenv("HF_ENDPOINT", local_hub.endpoint)
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    bring_notes(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return local_hub


@pytest.fixture
def publish(hub) -> Callable[..., str]:
    """Puts files on the Hub; the pinned reference."""

    def put(env: str, name: str = "me/attack", **files: str) -> str:
        hub.create(name)
        return f"{name}@{hub.commit(name, {'env.py': env, **files})}:env.py"

    return put


@pytest.fixture(params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> str:
    """Each sandbox that works here."""
    return request.param


@pytest.fixture(params=[pytest.param("auto", marks=needs_sandbox)])
def some_sandbox(request: pytest.FixtureRequest) -> str:
    """For what does not depend on which one it is: the strongest that works here."""
    return request.param
