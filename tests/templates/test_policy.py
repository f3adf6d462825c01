"""`templates/policy`: a policy that reads frames, with its own environment."""

import sys

import pytest
from support.needs import needs_egl, needs_mujoco
from support.paths import ROOT
from support.projects import ODD, check_style, files_of, make, run
from support.run_tools import snapshot

import envhub
from envhub.conventions import KEYS
from envhub.sources.requirements import requirements_at


@pytest.mark.parametrize(("answers", "name"), [({}, "pixel-pusher"), (ODD, None)])
def test_the_exact_set_of_files_and_their_style(tmp_path, answers, name):
    project = make(tmp_path, "--policy", answers=answers)
    assert name in (None, project.name)
    assert files_of(project) == {
        ".gitignore", "README.md", "policy.py", "pyproject.toml", "tests/test_policy.py",
    }  # fmt: skip
    check_style(project)


def test_cookiecutter_itself_gives_the_same_bytes(tmp_path):
    (tmp_path / "new").mkdir()
    ours = make(tmp_path / "new", "--policy", answers=ODD)
    words = [f"{key}={value}" for key, value in ODD.items()]
    argv = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", tmp_path / "plain"]
    run(*argv, ROOT / "templates" / "policy", *words, cwd=tmp_path, HOME=str(tmp_path))
    assert snapshot(tmp_path / "plain" / ours.name) == snapshot(ours)


def test_it_declares_its_packages_and_its_own_tests_pass(tmp_path):
    project = make(tmp_path, "--policy")
    assert requirements_at(project / "policy.py").packages == ("numpy>=1.26", "scipy>=1.13")
    assert "2 passed" in run(sys.executable, "-m", "pytest", "-q", cwd=project)


@needs_mujoco
@needs_egl
def test_it_solves_the_benchmark_of_the_other_template_from_frames(tmp_path):
    policy = make(tmp_path, "--policy") / "policy.py"
    out = tmp_path / "run"
    found = envhub.evaluate(make(tmp_path), policy, episodes=2, workers=2, out=out)
    both = found.info["conventions"]
    assert both["policy"] == both["benchmark"]
    assert set(both["policy"]) == set(KEYS)
    assert found.summary().overall.rate >= 0.75
