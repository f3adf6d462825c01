"""Scratch directories: those that killed processes leave are removed, and no others."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.hosts import FOREVER, start_host
from support.needs import needs_own_mount, needs_root
from support.processes import ROOT, children, kill, start_time, survivors, wait_until
from support.run_tools import envhub

from envhub.errors import NoScratchDirectory
from envhub.scratch import make_scratch, scratch_directory, sweep

OWNER = """
import os, sys, time
from envhub.scratch import make_scratch
path = make_scratch()
(path / "inner").mkdir()
(path / "inner" / "file").touch()
print(path, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """Where temporary files belong."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


@pytest.fixture
def owner(temporary):
    """A process that has made a scratch directory, which it leaves when it is killed."""
    process = start_owner()
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def start_owner(*before: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*before, sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )


def renamed(path: Path, part: int, text: str) -> Path:
    """Give a directory the name that another owner's would have."""
    words = path.name.split("-")
    words[part] = text
    return path.rename(path.with_name("-".join(words)))


def test_a_new_one(temporary):
    path = make_scratch()
    assert path.parent == temporary
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert list(path.iterdir()) == []
    assert make_scratch() != path
    sweep(str(temporary))
    assert path.is_dir()


def test_one_that_is_removed_at_the_end(temporary):
    with scratch_directory() as path:
        (path / "file").touch()
    assert list(temporary.iterdir()) == []


def test_the_owner_lives(owner, temporary):
    _, path = owner
    sweep(str(temporary))
    assert (path / "inner" / "file").exists()


def test_the_owner_was_killed(owner, temporary):
    process, _ = owner
    process.kill()
    process.wait()
    sweep(str(temporary))
    assert list(temporary.iterdir()) == []


def test_the_owner_was_killed_and_nobody_has_reaped_it(owner, temporary):
    process, _ = owner
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    sweep(str(temporary))
    assert list(temporary.iterdir()) == []


def test_another_process_has_the_owner_s_number_now(owner, temporary):
    process, path = owner
    begun = int(start_time(process.pid))
    assert f"-{process.pid}-{begun}-" in path.name
    renamed(path, 3, str(begun - 1))
    sweep(str(temporary))
    assert list(temporary.iterdir()) == []


def test_the_owner_was_on_another_machine(owner, temporary):
    process, path = owner
    process.kill()
    process.wait()
    other = renamed(path, 1, "0" * 8)
    sweep(str(temporary))
    assert (other / "inner" / "file").exists()


@needs_own_mount
def test_the_owner_is_in_another_container(temporary):
    """There it has a number that is somebody else's here, or nobody's."""
    process = start_owner("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc")
    path = Path(process.stdout.readline().strip())
    sweep(str(temporary))
    assert (path / "inner" / "file").exists()
    for pid in (process.pid, *children(process.pid)):
        kill(pid)
    process.communicate()


@needs_root
def test_one_of_another_user(owner, temporary):
    process, path = owner
    process.kill()
    process.wait()
    os.chown(path, 65534, 65534)
    path.chmod(0o500)
    sweep(str(temporary))
    assert (path / "inner" / "file").exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o500


def test_links_and_files_are_left_alone(owner, temporary, tmp_path):
    process, path = owner
    process.kill()
    process.wait()
    kept = tmp_path / "kept"
    path.rename(kept)
    path.symlink_to(kept)
    file = path.with_name(path.name[:-1] + ("0" if path.name[-1] != "0" else "1"))
    file.touch()
    sweep(str(temporary))
    assert (kept / "inner" / "file").exists()
    assert path.is_symlink()
    assert file.exists()


@pytest.mark.parametrize(
    "name", ["envhub-try-abc", "envhub-12", "other", "envhub-00000000-0-1-00000000"]
)
def test_other_names_are_left_alone(name, temporary):
    (temporary / name).mkdir()
    sweep(str(temporary))
    assert (temporary / name).is_dir()


def test_a_directory_that_cannot_be_used(temporary, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(temporary / "nowhere"))
    with pytest.raises(NoScratchDirectory, match=r"/nowhere: No such file .* Set TMPDIR to") as got:
        make_scratch()
    assert got.value.directory == str(temporary / "nowhere")


def test_after_host_and_guards_were_killed_at_once_the_next_command_removes_it(temporary, tmp_path):
    (tmp_path / "marker").touch()
    host = start_host(FOREVER, tmp_path)
    while "open" not in host.stdout.readline():
        pass
    [outer] = children(host.pid)
    [inner] = children(outer)
    for pid in (inner, outer, host.pid):  # so that none can act on the end of another
        os.kill(pid, signal.SIGSTOP)
    for pid in (inner, outer, host.pid):
        kill(pid)
    host.communicate()
    while left := survivors(tmp_path):  # what the env started, which no guard can end now
        for pid, _ in left:
            kill(pid)
    assert len(list(temporary.iterdir())) == 1
    assert envhub("info", "./run_walk", TMPDIR=str(temporary)).code == 0
    wait_until(lambda: list(temporary.iterdir()) == [])
