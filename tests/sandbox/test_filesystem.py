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
    of_venv = {tmp_path / "venv" / name for name in ("bin", "lib", "pyvenv.cfg")}
    of_base = {tmp_path / "base" / name for name in ("bin", "lib")}
    assert found == {*of_venv, *of_base, tmp_path / "links/python3", PACKAGE}


def test_only_what_is_an_interpreters_own_is_shown_of_its_directory(tmp_path):
    """Not what people keep beside it: settings with passwords, other environments, a project."""
    python = venv(tmp_path, tmp_path / "venv")
    needed = (
        "share/data", "include/python3.11/Python.h", "etc/fonts/fonts.conf", "ssl/cert.pem",
        "nvvm/libdevice/libdevice.10.bc", "x86_64-conda-linux-gnu/sysroot/lib",
    )  # fmt: skip
    for prefix in ("venv", "base"):
        for name in (*needed, *SECRETS):
            (tmp_path / prefix / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / prefix / name).touch()
    (tmp_path / "private").mkdir()
    (tmp_path / "venv/libexec").symlink_to(tmp_path / "private")
    (tmp_path / "venv/lib64").symlink_to("lib")
    shown = filesystem.interpreter_paths(python)
    assert not is_shown(tmp_path / "private", shown)
    assert tmp_path / "venv/lib64" in shown
    for prefix in ("venv", "base"):
        hidden = [name for name in SECRETS if is_shown(tmp_path / prefix / name, shown)]
        assert hidden == []
        assert all(is_shown(tmp_path / prefix / name, shown) for name in needed)


SECRETS = (
    "pip.conf", "uv.toml", ".netrc", "_netrc", ".pypirc", ".condarc", "condarc", ".condarc.d/a.yml",
    "etc/pip.conf", "etc/conda/activate.d/token.sh", "etc/xdg/pip/pip.conf", "conda-meta/history",
    "envs/other/pip.conf", "pkgs/urls.txt", ".env", "project.py", "ssl/private/key.pem",
)  # fmt: skip


def is_shown(path: Path, shown: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(above) for above in shown)


def test_settings_beside_the_systems_programs(tmp_path):
    for name in ("bin/tool", "lib/library.so", "local/cuda/lib/library.so", "local/bin/tool"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "local/etc").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "local/settings").symlink_to("etc")
    assert list(filesystem.shown_of_system(tmp_path)) == [tmp_path]
    for name in ("pip.conf", ".netrc", "local/pip.conf", "local/etc/gitconfig"):
        (tmp_path / name).touch()
        shown = tuple(filesystem.shown_of_system(tmp_path))
        assert tmp_path / "lib64" in shown
        assert (tmp_path / "local/settings" in shown) == (name != "local/etc/gitconfig")
        assert not is_shown(tmp_path / name, shown)
        for kept in ("bin/tool", "lib/library.so", "local/cuda/lib/library.so", "local/bin/tool"):
            assert is_shown(tmp_path / kept, shown)
        (tmp_path / name).unlink()


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
    assert set(filesystem.interpreter_paths(python)) == {tmp_path / "opt/bin", PACKAGE}


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
