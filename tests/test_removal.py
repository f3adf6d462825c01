"""Removing directories that foreign code could write to, as an ordinary user too."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.processes import ROOT

from envhub.removal import remove_tree

AS_NOBODY = """if True:
    import os, sys
    from pathlib import Path
    os.chdir("/")
    if os.getuid() == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    sys.path.insert(0, sys.argv[2])
    from envhub.removal import remove_tree
"""
"""Modes bind everybody but root."""


@pytest.mark.parametrize("mode", [0, 0o100, 0o200, 0o300, 0o400, 0o500])
def test_directories_that_cannot_be_entered(mode, shared_directory):
    make = """
    tree = Path(sys.argv[1], "tree")
    Path(tree, "a/b/c").mkdir(parents=True)
    Path(tree, "a/b/file").touch()
    for name in ("a/b/c", "a/b", "a", ""):
        Path(tree, name).chmod(int(sys.argv[3]))
    remove_tree(tree)
    print(os.listdir(sys.argv[1]))
"""
    assert as_nobody(make, shared_directory, mode) == "[]"


def test_links_are_not_followed(shared_directory):
    make = """
    kept, tree = Path(sys.argv[1], "kept"), Path(sys.argv[1], "tree")
    for directory in (kept, tree):
        directory.mkdir()
    (kept / "file").touch()
    kept.chmod(0o500)
    (tree / "link").symlink_to(kept)
    (tree / "closed").mkdir()
    (tree / "closed/link").symlink_to(kept)
    (tree / "closed").chmod(0)
    remove_tree(tree)
    print(os.listdir(sys.argv[1]), oct(kept.stat().st_mode), os.listdir(kept))
"""
    answer = as_nobody(make, shared_directory)
    assert answer == "['kept'] 0o40500 ['file']"


def test_a_link_in_its_place(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "kept").is_dir()


def test_deep_ones(shared_directory):
    """Deeper than a path may be long, and than Python may recurse."""
    make = """
    here = os.open(sys.argv[1], os.O_RDONLY)
    os.mkdir("tree", dir_fd=here)
    inner, opened = os.open("tree", os.O_RDONLY, dir_fd=here), []
    for number in range(2500):
        os.mkdir("a", dir_fd=inner)
        outer, inner = inner, os.open("a", os.O_RDONLY, dir_fd=inner)
        if number % 100 == 50:
            opened.append(outer)
        else:
            os.close(outer)
    for outer in opened:
        os.chmod("a", 0, dir_fd=outer)
    remove_tree(Path(sys.argv[1], "tree"))
    print(os.listdir(sys.argv[1]))
"""
    assert as_nobody(make, shared_directory) == "[]"


def test_one_that_is_not_there(tmp_path):
    remove_tree(tmp_path / "nothing")


@pytest.fixture
def shared_directory():
    """One that other users can write to, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="test-process-") as name:
        os.chmod(name, 0o777)
        yield Path(name)


def as_nobody(code: str, *arguments: object) -> str:
    """What a program prints that is run as an ordinary user, by an interpreter of the system."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") if os.getuid() == 0 else None
    directory, *more = arguments
    words = (directory, ROOT, *more)
    done = subprocess.run(
        [python or sys.executable, "-P", "-c", AS_NOBODY + code, *map(str, words)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_of_somebody_else_is_left(tmp_path):
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    tree.chmod(0o500)
    remove_tree(tree, owner=os.getuid() + 1)
    assert (tree / "inner").is_dir()
    assert tree.stat().st_mode & 0o777 == 0o500
    remove_tree(tree, owner=os.getuid())
    assert not tree.exists()
