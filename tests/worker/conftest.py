"""Benchmarks that are loaded in this process."""

import sys
from typing import Any

import pytest

from envhub.plugins import Plugins
from envhub.refs import PathRef
from envhub.sources.find import locate
from envhub.wire.messages import Load
from envhub.worker.benchmark import LoadedBenchmark, load_benchmark


@pytest.fixture
def load(assets, monkeypatch):
    """Loads a file as a worker does, and takes back what that changes in this process."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def load(path: str, horizon: int | None = None, **env_args: Any) -> LoadedBenchmark:
        source = locate(PathRef(str(assets / path)))
        return load_benchmark(Load(1, source, env_args, (), horizon), Plugins())

    yield load
    for name in set(sys.modules) - before:
        if name == "helper" or name.startswith("envhub_local_"):
            del sys.modules[name]
