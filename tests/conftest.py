"""What all tests share."""

import os
from pathlib import Path

import pytest

ASSETS = Path(__file__).parent / "assets"


@pytest.fixture
def assets() -> Path:
    """Good and bad env files."""
    return ASSETS


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the home of whoever runs it."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("ENVHUB_HOME", "ENVHUB_PLUGINS", "XDG_CACHE_HOME"):
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
