"""Git's objects, against git itself."""

import subprocess
from dataclasses import replace

import pytest
from support.needs import needs_git

from envhub.sources.git import (
    BrokenProof,
    _collect,
    _repository,
    object_id,
    parse_tree,
    pointer_id,
    tree_of,
    walk,
)


def git(*arguments, cwd, stdin=None) -> bytes:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=True,
    ).stdout


@pytest.fixture
def repository(tmp_path):
    git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "env.py").write_text("print(1)\n")
    (tmp_path / "deep" / "er" / "data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "link").symlink_to("env.py")
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)
    commit = git("rev-parse", "HEAD", cwd=tmp_path).decode().strip()
    names = git("rev-list", "--objects", "HEAD", cwd=tmp_path).decode().split("\n")
    objects = {}
    for name in (line.split()[0] for line in names if line):
        kind = git("cat-file", "-t", name, cwd=tmp_path).decode().strip()
        if kind != "blob":
            objects[name] = git("cat-file", kind, name, cwd=tmp_path)
    return tmp_path, commit, objects


@needs_git
def test_walking_finds_every_file_with_its_id(repository):
    place, commit, objects = repository
    found = walk(commit, objects)
    listed = git("ls-tree", "-r", "HEAD", cwd=place).decode().splitlines()
    expected = {line.split("\t")[1]: line.split()[2] for line in listed}
    assert {path: entry.blob_id for path, entry in found.items()} == expected
    assert found["link"].mode == "120000"
    data = (place / "deep" / "er" / "data.bin").read_bytes()
    assert object_id("blob", data) == found["deep/er/data.bin"].blob_id


@needs_git
def test_every_changed_byte_of_every_object_is_noticed(repository):
    _, commit, objects = repository
    for name, content in objects.items():
        for position in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[position] ^= 1
            with pytest.raises(BrokenProof):
                walk(commit, {**objects, name: bytes(changed)})


@needs_git
def test_what_is_missing_is_noticed(repository):
    _, commit, objects = repository
    for name in objects:
        with pytest.raises(BrokenProof, match="is missing"):
            walk(commit, {n: c for n, c in objects.items() if n != name})


def test_objects_that_hash_right_but_are_none():
    text = b"no tree here\n"
    with pytest.raises(BrokenProof, match="names no tree"):
        tree_of(object_id("commit", text), text)
    for content in (b"100644 name", b"100644 name\0short", b"100644 \xff\0" + bytes(20)):
        with pytest.raises(BrokenProof):
            parse_tree(object_id("tree", content), content)


def test_the_pointer_of_a_large_file():
    content = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 5\n"
    assert pointer_id("a" * 64, 5) == object_id("blob", content)


@needs_git
def test_a_tree_that_holds_itself_many_times(tmp_path, monkeypatch):
    """Ten levels of a thousand entries each, all the same: 10**30 files out of eleven objects."""
    git("init", "-q", "--bare", ".", cwd=tmp_path)
    entries = b"100644 blob %b\tfile\n" % git("hash-object", "-w", "--stdin", cwd=tmp_path).strip()
    for _ in range(11):
        tree = git("mktree", "--missing", cwd=tmp_path, stdin=entries).strip()
        entries = b"".join(b"040000 tree %b\td%03d\n" % (tree, n) for n in range(1000))
    commit = git("commit-tree", "-m", "bomb", tree.decode(), cwd=tmp_path).decode().strip()
    with _repository("http://127.0.0.1/me/env", None) as repository:
        own = replace(repository, place=tmp_path)
        objects = _collect(own, commit)
        assert len(objects) == 12
        with pytest.raises(BrokenProof, match="more than 100000 files"):
            walk(commit, objects)
        monkeypatch.setattr("envhub.sources.git._MAX_OBJECT_BYTES", 1000)
        with pytest.raises(BrokenProof, match="trees have more than 0 MB"):
            _collect(own, commit)


def test_a_name_that_is_a_path():
    content = b"100644 ../escaped\0" + bytes(20)
    with pytest.raises(BrokenProof, match=r"'\.\./escaped' is not the name of one file"):
        parse_tree(object_id("tree", content), content)


@pytest.mark.parametrize("mode", [b"100644", b"40000", b"160000"])
def test_two_entries_of_one_name(mode):
    """The page of the commit may show the first, where the last would run."""
    content = b"100644 env.py\0" + bytes(20) + mode + b" env.py\0" + bytes([1] * 20)
    with pytest.raises(BrokenProof, match=r"has two entries called 'env\.py'"):
        parse_tree(object_id("tree", content), content)
