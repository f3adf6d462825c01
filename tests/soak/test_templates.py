"""The projects of `envhub new`, type-checked, and installed where nothing else is."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import needs_egl, needs_index
from support.paths import DOCS, ROOT
from support.projects import ODD, build_wheel, check_style, check_types, make, run

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def wrapped(success: str) -> list[str]:
    file = str(DOCS / "examples" / "my_gym_env.py")
    return ["--from", file, "--set", "instruction=slide", "--set", f"success={success}"]


PROJECTS = {
    "benchmark": ([], {}),
    "odd": ([], ODD),
    "policy": (["--policy"], {}),
    "key": (wrapped("solved"), {}),
    "survived": (wrapped("survived"), {}),
    "terminated": (wrapped("terminated"), {}),
    "none": (wrapped("none"), {}),
    "gym": (["--from", "gym:CartPole-v1", "--set", "instruction=balance"], {}),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_its_style_and_types(name, tmp_path, cache):
    arguments, answers = PROJECTS[name]
    project = make(tmp_path, *arguments, answers=answers)
    check_style(project)
    check_types(project, cache)


@needs_index
@needs_egl
def test_installed_where_nothing_else_is(tmp_path):
    """With the packages that its wheel asks for, and pytest; then its own tests."""
    uv = Path(sys.executable).with_name("uv")
    project = make(tmp_path)
    core = build_wheel(ROOT, tmp_path / "core")
    mine = build_wheel(project, tmp_path / "mine")
    run(uv, "venv", "--python", sys.executable, tmp_path / "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    inherited = subprocess.run(
        [uv, "pip", "install", "--python", python, core, mine, "pytest", "cookiecutter"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert inherited.returncode == 0, inherited.stderr
    assert "passed" in run(python, "-m", "pytest", "-q", cwd=project)
    run(python, "-m", "envhub", "new", "again", "--no-input", cwd=tmp_path)
    assert (tmp_path / "again" / "env.py").exists()
