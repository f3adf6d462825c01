"""What all tests share."""

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.leftovers import Leftovers
from support.needs import commands, needs_git, needs_of, reason_to_skip
from support.notes import bring_notes, make_notes
from support.paths import ASSETS
from support.wheels import NEEDED, make_wheel, repack

from envhub.machine.resources import cores
from envhub.sandbox.variables import kernel_variables

# Before numpy is loaded: loops in this process are compared with what workers compute.
for _name, _value in kernel_variables().items():
    os.environ.setdefault(_name, _value)

REQUIRE_ALL = os.environ.get("ENVHUB_REQUIRE_ALL") == "1"

PLACES = (
    "ENVHUB_HOME", "ENVHUB_CACHE_DIR", "ENVHUB_STATE_DIR", "ENVHUB_CONFIG", "ENVHUB_OUT",
    "ENVHUB_WORKERS", "ENVHUB_LOG", "XDG_CACHE_HOME", "XDG_STATE_HOME",
)  # fmt: skip
"""Variables that say where EnvHub keeps things; tests have places of their own."""

leftovers = Leftovers()
homes = itertools.count(1)

settings.register_profile("envhub", deadline=None)  # machines are busy
settings.load_profile("envhub")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C and SIGHUP have their effect in children.

    A shell starts commands in the background with SIGINT ignored, and nohup with SIGHUP; children
    inherit that, and a Python process that finds it ignored leaves it so. What a process handles
    is not inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One per core and one more, as tests wait; with more than eight the slowest test decides."""
    return min(cores() + 1, 8)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what runs, and what it needs."""
    for item in items:
        if "local_hub" in getattr(item, "fixturenames", ()):
            item.add_marker(needs_git)
    # Soak runs are asked for by name: `pytest -m soak`.
    if "soak" not in (config.getoption("-m") or ""):
        _deselect("soak", config, items)
    # Where nothing may be skipped, root's own tests run as root: `make test-root`.
    if REQUIRE_ALL and os.geteuid() != 0:
        _deselect("needs_root", config, items)


def _deselect(mark: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker(mark)]
    config.hook.pytest_deselected(items=marked)
    items[:] = [item for item in items if not item.get_closest_marker(mark)]


# What is missing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs something that this machine lacks."""
    for name in needs_of(item):
        if reason := reason_to_skip(name):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """With ENVHUB_REQUIRE_ALL=1, as in CI, a skip is a failure."""
    report = yield
    if report.skipped and REQUIRE_ALL:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"ENVHUB_REQUIRE_ALL=1 forbids skipping: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, and the line that installs what was missing."""
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in skipped
        if isinstance(report.longrepr, tuple)
    )
    if not reasons:
        return
    terminalreporter.section("skipped")
    for reason, count in sorted(reasons.items()):
        tests = "1 test was" if count == 1 else f"{count} tests were"
        terminalreporter.write_line(f"{tests} skipped because {reason}")
    if install := commands(list(reasons)):
        terminalreporter.write_line(f"To run them too: {' && '.join(install)}")


# What is left behind


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """What a fixture of a module or of the session starts lives longer than one test."""
    if fixturedef.scope == "function":
        return (yield)
    before = leftovers.running()
    try:
        return (yield)
    finally:
        leftovers.keep(before)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Iterator[None]:
    """A test that reaches its limit of time takes its processes with it: many wait for them."""
    result = yield
    fail = signal.getsignal(signal.SIGALRM)

    def end(number: int, frame: object) -> None:
        leftovers.end()
        fail(number, frame)

    if callable(fail):
        signal.signal(signal.SIGALRM, end)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Processes that a test leaves behind are ended, and are its error."""
    try:
        result = yield
    except BaseException:
        leftovers.end()
        raise
    if left := leftovers.wait_and_end():
        pytest.fail("Processes were left behind, and ended:\n" + "\n".join(left), pytrace=False)
    return result


# Fixtures


@pytest.fixture
def assets() -> Path:
    """Good and bad env files."""
    return ASSETS


@pytest.fixture(scope="session", autouse=True)
def _session_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for fixtures that are made before a test's own home is."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("homes") / "home"
        home.mkdir()
        patch.setenv("HOME", str(home))
        for name in PLACES:
            patch.delenv(name, raising=False)
        make_notes()
        yield home


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, _session_home: Path) -> None:
    """No test reads or writes the home of whoever runs it."""
    # Not by mktemp, which looks at the directories of all tests before.
    home = _session_home.with_name(f"home-{next(homes)}")
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (*PLACES, "ENVHUB_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    bring_notes(home / ".cache" / "envhub", _session_home)


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
