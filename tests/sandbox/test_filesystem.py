"""What a sandbox shows, for interpreters in all sorts of places."""

import os
import sys
from pathlib import Path

import pytest

import envhub
from envhub.sandbox import filesystem

PACKAGE = Path(envhub.__file__).parent


def venv(directory: Path, home: Path) -> Path:
    """A virtual environment on an interpreter that is found through links."""
    for part in ("base/bin", "base/lib/python3.11", "links"):
        (directory / part).mkdir(parents=True)
    (directory / "base/bin/python3").write_text("")
    (directory / "links/python3").symlink_to(directory / "base/bin/python3")
    (home / "bin").mkdir(parents=True)
    (home / "lib/python3.11").mkdir(parents=True)
    (home / "bin/python").symlink_to("../../links/python3")
    (home / "pyvenv.cfg").write_text(f"home = {directory}/base/bin\nversion = 3.11\n")
    return home / "bin/python"


def test_another_interpreter(tmp_path):
    python = venv(tmp_path, tmp_path / "venv")
    found = set(filesystem.interpreter_paths(python))
    shown = {tmp_path / "venv", tmp_path / "base", tmp_path / "links/python3"}
    assert found == {*shown, PACKAGE}


def test_one_in_the_home_itself(tmp_path, monkeypatch):
    home = tmp_path / "home"
    python = venv(tmp_path, home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:{tmp_path}/base:relative:")
    assert set(filesystem.interpreter_paths(python)) == {
        home / "pyvenv.cfg", home / "lib/python3.11", python, tmp_path / "links/python3",
        tmp_path / "base", PACKAGE,
    }  # fmt: skip


def test_one_without_an_environment(tmp_path):
    (tmp_path / "opt/bin").mkdir(parents=True)
    python = tmp_path / "opt/bin/python3"
    python.write_text("")
    assert set(filesystem.interpreter_paths(python)) == {tmp_path / "opt", PACKAGE}


def test_directories_of_packages_on_the_path(tmp_path, monkeypatch):
    """A user's own code that lies on the path too is not shown."""
    for name in ("target/msgspec", "site-packages", "project/mine"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("target", "site-packages", "project"):
        monkeypatch.syspath_prepend(tmp_path / name)
    shown = {path for path in filesystem.interpreter_paths() if path.is_relative_to(tmp_path)}
    assert shown == {tmp_path / "target", tmp_path / "site-packages"}


def test_this_one():
    found = filesystem.interpreter_paths()
    for path in (sys.executable, os.__file__, pytest.__file__, envhub.__file__):
        shown = (*filesystem.ROOTS, *found)
        assert any(Path(path).is_relative_to(above) for above in shown), path
        assert any(Path(path).resolve().is_relative_to(above) for above in shown), path
    assert not any(filesystem.holds_home(path) for path in found)


def test_apart(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    paths = [tmp_path / "a/b", tmp_path / "a", tmp_path / "link/b", Path("/usr/lib")]
    assert filesystem.apart(paths) == [tmp_path / "a", tmp_path / "link/b"]
