"""Git's objects, against git itself."""

import subprocess

import pytest
from support.needs import needs_git

from envhub.sources.git import BrokenProof, object_id, parse_tree, pointer_id, tree_of, walk


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
