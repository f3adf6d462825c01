"""Installed plugins, and machines made worse by hand."""

import shutil
import sys
from pathlib import Path

import pytest
from perf.dummies import install
from support.paths import ASSETS


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with nothing on it but the scripts that a test puts there."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    monkeypatch.setenv("PATH", str(bin_))

    def put(name: str, script: str) -> str:
        (bin_ / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_ / name).chmod(0o755)
        return str(bin_ / name)

    return put


@pytest.fixture
def distributions(tmp_path, monkeypatch):
    """Installs distributions that are metadata and a module that must not be imported."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def put(name: str, version: str, *requires: str) -> None:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
        (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))
        (site / f"{name}.py").write_text("raise ImportError('doctor must not import this')\n")

    return put


@pytest.fixture
def no_distributions(monkeypatch):
    """An interpreter in which nothing is installed."""
    bare = [p for p in sys.path if "site-packages" not in p and "dist-packages" not in p]
    monkeypatch.setattr(sys, "path", bare)
    for module in [name for name in sys.modules if name.partition(".")[0] == "uv"]:
        monkeypatch.delitem(sys.modules, module)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: 50 installed plugins, and simulators, that raise when they are imported."""
    directory = tmp_path_factory.mktemp("site")
    install(directory, 50)
    return directory


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: a plugin that works, one that raises, and two that claim one name."""
    directory = tmp_path_factory.mktemp("counting")
    shutil.copytree(ASSETS / "hooks", directory / "envhub_counting")
    (directory / "envhub_counting" / "env.py").rename(directory / "envhub_counting" / "__init__.py")
    module = directory / "envhub_counting" / "__init__.py"
    module.write_text(module.read_text().replace('":make"', '"envhub_counting:make"'))
    (directory / "broken.py").write_text("raise OSError('no \\x1b[31mlibGL')")
    for name, points in {
        "envhub-counting": "counting = envhub_counting",
        "envhub-broken": "broken = broken",
        "envhub-one": "twice = one",
        "envhub-two": "twice = two",
    }.items():
        info = directory / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[envhub]\n{points}\n")
    return directory
