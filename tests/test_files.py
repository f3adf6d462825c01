"""Files and trees are written whole or not at all."""

import errno
import os
import stat

import pytest
from support.disks import SmallDisk
from support.needs import needs_own_mount

from envhub.config import config_home
from envhub.files import (
    advise_on_space,
    cache_home,
    discard_tree,
    settle_tree,
    staged_tree,
    state_home,
    write_whole,
)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(b"before")
    write_whole(path, b"after")
    assert path.read_bytes() == b"after"
    assert names(tmp_path) == ["run.json"]


@needs_own_mount
def test_a_full_disk_is_told_with_the_file(tmp_path):
    disk = SmallDisk(tmp_path, "64k")
    try:
        path = disk.seen(tmp_path / "run.json")
        path.write_bytes(b"before")
        with pytest.raises(OSError, match="No space left on device") as caught:
            write_whole(path, bytes(2**17))
        assert caught.value.filename == str(path)
        assert path.read_bytes() == b"before"
        assert names(path.parent) == ["run.json"]
    finally:
        disk.close()


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "open", b"x")
        write_whole(tmp_path / "secret", b"x", mode=0o600)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"open": 0o640, "secret": 0o600}


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "taken", b"x")
    assert names(tmp_path) == ["taken"]


def test_a_tree_is_settled_read_only(tmp_path):
    with staged_tree(tmp_path, ".new-") as staged:
        (staged / "folder").mkdir()
        (staged / "folder" / "file").write_text("x")
        settle_tree(staged, tmp_path / "place")
    assert names(tmp_path) == ["place"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "place").rglob("*")]
    assert all(not mode & 0o222 for mode in modes)
    discard_tree(tmp_path / "place")
    assert names(tmp_path) == []


def test_a_tree_that_is_not_settled_is_gone(tmp_path):
    def fill():
        with staged_tree(tmp_path, ".new-") as staged:
            (staged / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert names(tmp_path) == []


def test_a_place_that_is_taken_stays_as_it_was(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "mine").touch()

    def settle():
        with staged_tree(tmp_path, ".new-") as staged:
            settle_tree(staged, tmp_path / "place")

    with pytest.raises(OSError, match="not empty"):
        settle()
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["mine"]


def test_links_are_removed_and_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("x")
    with staged_tree(tmp_path, ".new-") as staged:
        (staged / "link").symlink_to(target)
    assert names(tmp_path) == ["target"]
    assert stat.S_IMODE(target.stat().st_mode) & 0o200


def test_a_cache_may_lie_elsewhere_than_state_and_consent(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVHUB_HOME", str(tmp_path / "all"))
    assert {cache_home(), config_home(), state_home()} == {tmp_path / "all"}
    monkeypatch.setenv("ENVHUB_CACHE_DIR", str(tmp_path / "shared"))
    assert (cache_home(), state_home()) == (tmp_path / "shared", tmp_path / "all")
    monkeypatch.setenv("ENVHUB_STATE_DIR", str(tmp_path / "own"))
    assert {config_home(), state_home()} == {tmp_path / "own"}
    monkeypatch.delenv("ENVHUB_HOME")
    monkeypatch.delenv("ENVHUB_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_home() == tmp_path / "xdg" / "envhub"


def test_permission_is_not_a_matter_of_space():
    full, closed = OSError(errno.ENOSPC, "full"), PermissionError(errno.EACCES, "closed")
    assert "Free some space" in advise_on_space(full, "ENVHUB_CACHE_DIR")
    assert advise_on_space(closed, "ENVHUB_CACHE_DIR").startswith("Set ENVHUB_CACHE_DIR to")
