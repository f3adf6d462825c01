"""Local directories and files as sources."""

import os
from pathlib import Path

import pytest

from envhub.errors import InvalidReference, UsageError
from envhub.options import SourceOptions
from envhub.refs import HubRef, NameRef, PathRef, parse
from envhub.sources.find import find_source, locate, read_reference


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory to stand in, with a few files."""
    files = ["reach/env.py", "reach/push.py", "my env/env.py", "_x/env.py", "empty/notes.txt"]
    for name in [*files, "named.py/env.py", "not.py/readme", "a.b.py", "\u00e9\u00e8/env.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("reach")
    (tmp_path / "link.py").symlink_to("reach/push.py")
    (tmp_path / "broken.py").symlink_to("nowhere.py")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe.py")
    monkeypatch.chdir(tmp_path / "reach")
    return tmp_path.resolve()


GOOD = {
    "a directory": ("../reach", "reach", "env.py", "reach"),
    "with a slash": ("../reach/", "reach", "env.py", "reach"),
    "this directory": (".", "reach", "env.py", "reach"),
    "its env.py": ("./env.py", "reach", "env.py", "reach"),
    "another file": ("./push.py", "reach", "push.py", "push"),
    "with dots": ("../empty/../reach/./push.py", "reach", "push.py", "push"),
    "a link to a directory": ("../link", "reach", "env.py", "reach"),
    "a link to a file": ("../link.py", "reach", "push.py", "push"),
    "a directory called like a file": ("../named.py", "named.py", "env.py", "named.py"),
    "a name with a dot": ("../a.b.py", "", "a.b.py", "a.b"),
    "a name with a space": ("../my env", "my env", "env.py", "my-env"),
    "a name that starts badly": ("../_x", "_x", "env.py", "x"),
    "a name without any letter": ("../\u00e9\u00e8", "\u00e9\u00e8", "env.py", "local"),
}


@pytest.mark.parametrize(("text", "directory", "file", "name"), GOOD.values(), ids=GOOD)
def test_found(here, text, directory, file, name):
    source = locate(parse(text))
    assert Path(source.directory) == here / directory
    assert (source.file, source.name) == (file, name)
    assert source.package.isidentifier()


BAD = {
    "nothing": ("./nothing", "./nothing does not exist. Check the path."),
    "below a file": ("./env.py/x", "./env.py/x does not exist. Check the path."),
    "no env.py": ("../empty", "../empty has no env.py: name the file that makes its envs."),
    "a directory called like a file": (
        "../not.py",
        "../not.py has no env.py: name the file that makes its envs.",
    ),
    "no Python": (
        "../empty/notes.txt",
        "../empty/notes.txt is not a Python file: name a .py file or a directory.",
    ),
    "no file": ("../pipe.py", "../pipe.py is not a Python file: name a .py file or a directory."),
    "a link to nowhere": ("../broken.py", "../broken.py does not exist. Check the path."),
    "a link to itself": ("../loop", "../loop does not exist. Check the path."),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
@pytest.mark.usefixtures("here")
def test_not_found(text, message):
    with pytest.raises(UsageError) as caught:
        locate(parse(text))
    assert str(caught.value) == message


@pytest.mark.parametrize("sandbox", ["auto", "none", "landlock", "bubblewrap"])
def test_a_sandbox_for_local_code_is_told_to_do_nothing(here, sandbox):
    said = []
    find_source("../reach", SourceOptions(sandbox=sandbox), message=said.append)
    told = f"--sandbox {sandbox} does nothing for ../reach: code that is on this machine runs with"
    assert [text.startswith(told) for text in said] == [True] * (sandbox not in ("auto", "none"))


def test_a_name_that_no_file_system_takes():
    with pytest.raises(UsageError, match=r"x cannot be read: File name too long\.$"):
        locate(PathRef("./" + "x" * 300))


def test_a_file_that_may_not_be_read(here):
    (here / "reach" / "env.py").chmod(0)
    if os.getuid() == 0:  # root may read whatever it likes
        assert locate(PathRef(".")).file == "env.py"
        return
    with pytest.raises(UsageError, match=r"^\. cannot be read: Permission denied\.$"):
        locate(PathRef("."))


def test_a_path_that_is_not_utf8(tmp_path, monkeypatch):
    directory = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(directory)
    Path(os.fsdecode(directory), "env.py").touch()
    monkeypatch.chdir(directory)
    with pytest.raises(UsageError, match=r"^\. is at a path that is not UTF-8: .*Rename its"):
        locate(PathRef("."))


@pytest.mark.usefixtures("here")
def test_a_package_is_a_directory():
    reach, push, link = (locate(parse(text)) for text in ("../reach", "./push.py", "../link"))
    assert reach.package == push.package == link.package
    assert reach.package != locate(parse("../my env")).package


def test_a_file_of_gigabytes_is_refused_unread(here):
    with (here / "huge.py").open("wb") as file:
        file.truncate(5 * 2**30)
    with pytest.raises(UsageError) as caught:
        locate(PathRef("../huge.py"))
    assert str(caught.value) == (
        "../huge.py has 5,120 MB, and a Python file at most 16: name the file with the code."
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("push.py", PathRef("./push.py")),
        ("deep/er/push.py", PathRef("./deep/er/push.py")),
        ("my env", PathRef("./my env")),
        ("push", NameRef("push")),
        ("owner/repo", HubRef("owner", "repo")),
    ],
)
def test_what_is_meant_without_a_dot(here, text, meant):
    for name in ("deep/er/push.py", "my env/env.py", "push/env.py", "owner/repo/env.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert read_reference(text) == meant


def test_home_is_expanded(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert read_reference("~/reach") == PathRef(f"{here}/reach")


@pytest.mark.parametrize("text", ["nowhere/at/all", "my space", "", "x" * 5000, "a\0b", 3])
def test_what_is_not_there_is_no_path(here, text):
    with pytest.raises(InvalidReference):
        read_reference(text)
