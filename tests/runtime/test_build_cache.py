"""Directories that are built once, whole or not at all."""

import compileall
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envhub.errors import RuntimeUnavailable
from envhub.runtime import build_cache

BUILDER = """
import os, sys, time
from pathlib import Path
from envhub.runtime.build_cache import ensure

def build(place):
    with open(sys.argv[1], "a") as file:
        file.write("built\\n")
    (place / "half").write_text("")
    time.sleep(float(sys.argv[2]))
    (place / "other").write_text("")
    return {"for": "tests"}

print(ensure("things", "key", build, message=print))
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def build(place: Path) -> dict[str, str]:
    (place / "folder").mkdir()
    (place / "folder/file").write_text("content")
    (place / "link").symlink_to("folder/file")
    return {"for": "tests"}


def never(_: Path) -> dict[str, str]:
    raise AssertionError


def start(log: Path, seconds: float) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", BUILDER, str(log), str(seconds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_it_is_built_once_and_read_only(home):
    place = build_cache.ensure("things", "key", build)
    assert place == home / "things/key"
    assert build_cache.ensure("things", "key", never) == place
    assert (place / "link").read_text() == "content"
    for path in (place, *place.rglob("*")):
        assert path.is_symlink() or not path.stat().st_mode & 0o222
    assert build_cache.all_built("things")[0].about["for"] == "tests"
    assert build_cache.size_of(place) > 7


def test_ten_processes_build_once(tmp_path, home):
    log = tmp_path / "log"
    running = [start(log, 0.3) for _ in range(10)]
    answers = [process.communicate()[0].splitlines() for process in running]
    assert [answer[-1] for answer in answers] == [str(home / "things/key")] * 10
    assert log.read_text() == "built\n"
    waited = ["Waiting for another process that is building key." in answer for answer in answers]
    assert sum(waited) >= 1
    assert not waited[[a[:-1] for a in answers].index([])]


def test_a_killed_builder_leaves_nothing_that_is_used(tmp_path, home):
    log = tmp_path / "log"
    running = start(log, 60)
    while not list(home.glob("things/.key-*/half")):
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert build_cache.all_built("things") == ()
    place = build_cache.ensure("things", "key", build)
    assert sorted(path.name for path in place.iterdir()) == ["envhub.json", "folder", "link"]
    assert list(home.glob("things/.key-*")) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: (place / "folder/file").write_text("another"),
        lambda place: (place / "folder/file").write_text("shorter"),
        lambda place: (place / "folder/file").unlink(),
        lambda place: (place / "folder/more").write_text(""),
        lambda place: (place / "folder/more").mkdir(),
        lambda place: (place / "folder/file").chmod(0o755),
        lambda place: ((place / "link").unlink(), (place / "link").symlink_to("folder")),
        lambda place: (place / "envhub.json").unlink(),
        lambda place: (place / "envhub.json").write_text("{"),
        lambda place: (place / "envhub.json").write_text("[]"),
        lambda place: (place / "envhub.json").write_text("{}"),
    ],
)
def test_what_is_damaged_is_built_again(damage):
    place = build_cache.ensure("things", "key", build)
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    damage(place)
    assert not build_cache.is_whole(place)
    assert not build_cache.all_built("things")[0].whole
    said: list[str] = []
    assert build_cache.ensure("things", "key", build, message=said.append) == place
    assert said == [f"{place} is damaged: rebuilding it."]
    assert (place / "link").read_text() == "content"
    assert build_cache.is_whole(place)


def compiled(place: Path) -> dict[str, str]:
    for folder in ("package", "plain"):
        (place / folder).mkdir()
        (place / folder / "module.py").write_text("x = 1\n")
    compileall.compile_dir(place / "package", quiet=2)
    return {"for": "tests"}


@contextmanager
def unlocked(*paths: Path) -> Iterator[None]:
    """Writable for a while, and with the same modes afterwards."""
    modes = {path: path.stat().st_mode for path in paths}
    for path, mode in modes.items():
        path.chmod(mode | 0o200)
    yield
    for path, mode in modes.items():
        if path.exists():
            path.chmod(mode)


ADDED = {
    "numba": "package/__pycache__/module.f-3.py311.nbi",
    "a module without source": "package/__pycache__/other.cpython-311.pyc",
    "optimized": f"package/__pycache__/module.{sys.implementation.cache_tag}.opt-1.pyc",
    "deeper": "package/__pycache__/more/file",
    "a new cache": "plain/__pycache__/file.nbi",
}


@pytest.mark.parametrize("name", ADDED.values(), ids=ADDED)
def test_a_file_added_below_pycache_is_no_damage(name):
    place = build_cache.ensure("things", "key", compiled)
    with unlocked(place / "plain", place / "package/__pycache__"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"cached")
    assert build_cache.ensure("things", "key", never) == place
    assert [built.whole for built in build_cache.all_built("things")] == [True]


@pytest.mark.parametrize("change", ["written", "removed", "added"])
def test_a_changed_compiled_module_is_damage(change):
    place = build_cache.ensure("things", "key", compiled)
    [file] = place.glob("package/__pycache__/*.pyc")
    with unlocked(place / "plain", file.parent, file):
        match change:
            case "written":
                file.write_bytes(b"other code")
            case "removed":
                file.unlink()
            case "added":
                (place / "plain/__pycache__").mkdir()
                (place / "plain/__pycache__" / file.name).write_bytes(b"other code")
    said = []
    build_cache.ensure("things", "key", compiled, message=said.append)
    assert said == [f"{place} is damaged: rebuilding it."]


def test_a_failure_leaves_nothing(home):
    def fail(place: Path) -> dict[str, str]:
        (place / "half").write_text("")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        build_cache.ensure("things", "key", fail)
    assert [path.name for path in (home / "things").iterdir()] == [".key.lock"]
    assert build_cache.known_keys("things") == ("key",)
    assert build_cache.remove("things", "key") is False


def test_removing(home):
    build_cache.ensure("things", "key", build)
    assert build_cache.remove("things", "key") is True
    assert build_cache.remove("things", "key") is False
    assert build_cache.remove("absent", "key") is False
    assert build_cache.all_built("things") == ()
    assert build_cache.known_keys("absent") == ()


def test_a_cache_that_cannot_be_written(home):
    home.write_text("no directory")
    with pytest.raises(RuntimeUnavailable, match="ENVHUB_HOME"):
        build_cache.ensure("things", "key", build)
