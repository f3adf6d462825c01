"""Directories that are built once, whole or not at all."""

import compileall
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envhub import directories
from envhub.directories import DirectoryNote, Kind
from envhub.errors import RuntimeUnavailable

BUILDER = """
import os, sys, time
from pathlib import Path
from envhub.directories import Kind, ensure

def build(place):
    with open(sys.argv[1], "a") as file:
        file.write("built\\n")
    (place / "half").write_text("")
    time.sleep(float(sys.argv[2]))
    (place / "other").write_text("")
    return {"for": "tests"}

print(ensure(Kind("things", "changes"), "key", build, message=print))
"""

THINGS = Kind("things", "changes")
ABSENT = Kind("absent", "content")
KINDS = {check: Kind("things", check) for check in ("changes", "content")}


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
    argv = [sys.executable, "-u", "-c", BUILDER, str(log), str(seconds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_it_is_built_once_and_read_only(home):
    place = directories.ensure(THINGS, "key", build)
    assert place == home / "things/key"
    assert directories.ensure(THINGS, "key", never) == place
    assert (place / "link").read_text() == "content"
    for path in (place, *place.rglob("*")):
        assert path.is_symlink() or not path.stat().st_mode & 0o222
    assert directories.all_built(THINGS)[0].about["for"] == "tests"
    assert directories.size_of(place) > 7
    # Others may use an ENVHUB_HOME that was prepared for them, and need the note.
    assert (home / "built/things/key.json").stat().st_mode & 0o777 == 0o644


def test_ten_processes_build_once(tmp_path, home):
    log = tmp_path / "log"
    with directories.locked(home / "things/key"):
        running = [start(log, 0.1) for _ in range(10)]
        said = running[0].stdout.readline()
    assert said == "Waiting for another process that is building key.\n"
    answers = [process.communicate()[0].splitlines() for process in running]
    assert [answer[-1] for answer in answers] == [str(home / "things/key")] * 10
    assert log.read_text() == "built\n"


def test_a_killed_builder_leaves_nothing_that_is_used(tmp_path, home):
    log = tmp_path / "log"
    running = start(log, 60)
    while not list(home.glob("things/.key-*/half")):
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert directories.all_built(THINGS) == ()
    place = directories.ensure(THINGS, "key", build)
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
    place = directories.ensure(THINGS, "key", build)
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    damage(place)
    assert not directories.is_whole(THINGS, "key")
    assert not directories.all_built(THINGS)[0].whole
    said: list[str] = []
    assert directories.ensure(THINGS, "key", build, message=said.append) == place
    assert said == [f"{place} is damaged: rebuilding it."]
    assert (place / "link").read_text() == "content"
    assert directories.is_whole(THINGS, "key")


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
    "deeper": "package/__pycache__/more/file",
    "a new cache": "plain/__pycache__/file.nbi",
}


@pytest.mark.parametrize("name", ADDED.values(), ids=ADDED)
def test_a_file_added_below_pycache_is_no_damage(name):
    place = directories.ensure(THINGS, "key", compiled)
    with unlocked(place / "plain", place / "package/__pycache__"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"cached")
    assert directories.ensure(THINGS, "key", never) == place
    assert [built.whole for built in directories.all_built(THINGS)] == [True]


@pytest.mark.parametrize("change", ["written", "removed", "added", "optimized"])
def test_a_changed_compiled_module_is_damage(change):
    place = directories.ensure(THINGS, "key", compiled)
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
            case "optimized":  # which Python reads with -O or PYTHONOPTIMIZE
                file.with_suffix(".opt-1.pyc").write_bytes(b"other code")
    said = []
    directories.ensure(THINGS, "key", compiled, message=said.append)
    assert said == [f"{place} is damaged: rebuilding it."]


# Whoever can write to the cache


@pytest.fixture
def apart(monkeypatch, tmp_path):
    """The cache and the state directory, which are not the same."""
    monkeypatch.delenv("ENVHUB_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def change_quietly(file: Path, text: str) -> None:
    """Write as many bytes as before, and set back the time and the mode."""
    before = file.stat()
    assert len(text) == before.st_size
    with unlocked(file):
        file.write_text(text)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_changed_file_of_the_same_size_and_time_is_seen(kind, apart):
    place = directories.ensure(kind, "key", build)
    change_quietly(place / "folder/file", "planted")
    said: list[str] = []
    directories.ensure(kind, "key", build, message=said.append)
    assert said == [f"{place} is damaged: rebuilding it."]
    assert (place / "folder/file").read_text() == "content"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_record_that_agrees_with_changed_files_is_seen(kind, apart):
    """Another user builds something else in the same place, with a record of its own."""
    place = directories.ensure(kind, "key", build)

    def plant(staged: Path) -> dict[str, str]:
        (staged / "folder").mkdir()
        (staged / "folder/file").write_text("planted")
        (staged / "link").symlink_to("folder/file")
        return {"for": "tests"}

    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(apart / "other"))
        said: list[str] = []
        directories.ensure(kind, "key", plant, message=said.append)
        assert said == [f"{place} was not built by you: rebuilding it."]
        assert (place / "link").read_text() == "planted"
    said = []
    directories.ensure(kind, "key", build, message=said.append)
    assert said == [f"{place} is damaged: rebuilding it."]
    assert (place / "link").read_text() == "content"


def test_a_restored_cache_is_checked_once_and_not_built_again(apart):
    place = directories.ensure(THINGS, "key", build)
    note = "built/things/key"
    before = directories.recall(note)
    moved = place.with_name("moved")
    subprocess.run(["cp", "-a", place, moved], check=True)
    directories.discard_tree(place)
    moved.chmod(0o755)
    moved.rename(place)
    place.chmod(0o555)
    assert directories.ensure(THINGS, "key", never) == place
    after = directories.recall(note)
    assert (after.manifest, after.unchanged != before.unchanged) == (before.manifest, True)
    assert directories.ensure(THINGS, "key", never) == place
    assert directories.recall(note) == after


def test_without_a_note_it_is_not_used(apart):
    place = directories.ensure(THINGS, "key", build)
    directories.forget("built/things/key")
    assert not directories.is_whole(THINGS, "key")
    said: list[str] = []
    assert directories.ensure(THINGS, "key", build, message=said.append) == place
    assert said == [f"{place} was not built by you: rebuilding it."]


def test_a_state_directory_that_cannot_be_written(apart):
    (apart / "state").write_text("no directory")
    with pytest.raises(
        RuntimeUnavailable,
        match=r"Set ENVHUB_(STATE|CACHE)_DIR to a dir",
    ):
        directories.ensure(THINGS, "key", build)


# What is known


def test_what_is_remembered_is_recalled():
    assert directories.recall("fetched/me--env/0") is None
    known = DirectoryNote(directories.digest(b"manifest"), "http://127.0.0.1:1")
    directories.remember("fetched/me--env/0", known)
    assert directories.recall("fetched/me--env/0") == known
    assert directories.recall("fetched/me--env/1") is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"manifest": 3}', b"\xff", b"[" * 9999])
def test_what_cannot_be_read_is_not_known(home, content):
    directories.remember("fetched/me--env/0", DirectoryNote("digest"))
    [path] = home.rglob("*.json")
    path.write_bytes(content)
    assert directories.recall("fetched/me--env/0") is None


def test_a_failure_leaves_nothing(home):
    def fail(place: Path) -> dict[str, str]:
        (place / "half").write_text("")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        directories.ensure(THINGS, "key", fail)
    found = sorted(path.name for path in (home / "things").iterdir())
    assert found == [".key.lock", ".key.used"]
    assert directories.known_keys(THINGS) == ("key",)


def test_what_a_process_uses_or_makes_is_not_removed(home, tmp_path):
    place = home / "things/key"
    making = start(tmp_path / "log", 60)
    while not list(home.glob("things/.key-*/half")):
        time.sleep(0.002)
    assert directories.is_used(place)
    assert not directories.remove_built(THINGS, "key")
    making.kill()
    making.communicate()
    assert not directories.is_used(place)
    [left] = directories.leftovers(place)
    assert directories.remove_built(THINGS, "key")
    assert not left.exists()

    holder = "import sys\nfrom pathlib import Path\nfrom envhub.directories import hold\n"
    holder += "hold(Path(sys.argv[1]))\nprint('held', flush=True)\nsys.stdin.read()\n"
    start(tmp_path / "log", 0).communicate()
    argv = [sys.executable, "-c", holder, str(place)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as using:
        using.stdout.readline()
        assert directories.is_used(place)
        assert not directories.remove_built(THINGS, "key")
        assert directories.is_whole(THINGS, "key")
        using.kill()
    assert not directories.is_used(place)
    os.utime(place.with_name(".key.used"), (50, 50))
    assert directories.last_use(place, place) == 50
    assert directories.remove_built(THINGS, "key")
    assert directories.remove_built(THINGS, "key")
    assert directories.remove_built(ABSENT, "key")
    assert [path.name for path in (home / "things").iterdir()] == [".key.lock"]
    assert directories.all_built(THINGS) == ()
    assert directories.known_keys(ABSENT) == ()


def test_a_removal_is_waited_for_by_whoever_wants_to_use_it(home, tmp_path):
    """It then finds that the directory is gone, and builds it again."""
    directories.ensure(THINGS, "key", build)
    place = home / "things/key"
    os.close(directories._held.pop(place))  # as at the end of this process
    lock = directories._lock_use(place, fcntl.LOCK_EX)
    waiting = start(tmp_path / "log", 0)
    while not waits_for_lock(waiting.pid):
        assert waiting.poll() is None
        time.sleep(0.002)
    directories._remove_all(place)
    directories._use_file(place).unlink()
    os.close(lock)
    waiting.communicate()
    assert (tmp_path / "log").read_text() == "built\n"
    assert directories.is_whole(THINGS, "key")


def waits_for_lock(pid: int) -> bool:
    waiting = [
        line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line
    ]
    return any(str(pid) in words for words in waiting)


def test_a_cache_that_cannot_be_written(home):
    home.write_text("no directory")
    with pytest.raises(
        RuntimeUnavailable,
        match=r"Set ENVHUB_(STATE|CACHE)_DIR to a dir",
    ):
        directories.ensure(THINGS, "key", build)
