"""Fixtures for the tests of benchmarks and plugins; pytest loads this file by its entry point."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from envhub_localhub import LocalHub


@pytest.fixture
def local_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[LocalHub]":
    """Start a Hub on loopback, without repositories; requests to it bypass proxies."""
    # Every pytest in an environment with EnvHub imports this file, so the server is imported here.
    from envhub.testing import LocalHub

    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1", prepend=",")
    with LocalHub(tmp_path / "hub") as hub:
        yield hub
