"""What all tests share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.paths import ASSETS
from support.wheels import NEEDED, make_wheel, repack


@pytest.fixture
def assets() -> Path:
    """Good and bad env files."""
    return ASSETS


@pytest.fixture(scope="session", autouse=True)
def _session_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same for fixtures that are made before a test's own home is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("XDG_STATE_HOME", raising=False)
        yield


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the home of whoever runs it."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("ENVHUB_HOME", "ENVHUB_PLUGINS", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """With ENVHUB_REQUIRE_ALL=1, as in CI, a skip is a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("ENVHUB_REQUIRE_ALL") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"ENVHUB_REQUIRE_ALL=1 forbids skipping: {reason}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Soak runs are asked for by name: `pytest -m soak`."""
    if "soak" in (config.getoption("-m") or ""):
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=soaks)
    items[:] = [item for item in items if item not in soaks]


@pytest.fixture(scope="session")
def uv_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, so that a wheel is unpacked once."""
    return tmp_path_factory.mktemp("uv")


@pytest.fixture
def only_index(monkeypatch: pytest.MonkeyPatch, uv_cache: Path) -> Callable[[Path], None]:
    """Makes an index on disk the only one that uv knows of."""

    def use(index: Path) -> None:
        for name in list(os.environ):
            if name.startswith(("UV_", "PIP_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("UV_CACHE_DIR", str(uv_cache))
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{index.as_uri()}/simple")

    return use


@pytest.fixture(scope="session")
def real_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with what workers need, made of what is installed here: no network is used."""
    index = tmp_path_factory.mktemp("index")
    for name in NEEDED:
        repack(index, name)
    for version in ("1.0", "2.0"):
        make_wheel(index, "gadget", version)
    return index


@pytest.fixture(scope="session")
def runtimes_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests that run workers in runtimes: each is built once."""
    return tmp_path_factory.mktemp("runtimes")


@pytest.fixture
def real_runtimes(
    real_index: Path,
    runtimes_home: Path,
    only_index: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Runtimes can be built and workers run in them."""
    only_index(real_index)
    monkeypatch.setenv("ENVHUB_HOME", str(runtimes_home))
    return real_index
