"""`templates/benchmark`: a project that runs at once, as a package and as a Hub repository."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.needs import needs_egl, needs_mujoco, needs_sandbox
from support.paths import ROOT
from support.projects import ODD, build_wheel, check_style, files_of, install, make, run
from support.published import same
from support.run_tools import snapshot

import envhub

FILES = {
    ".github/workflows/tests.yml", ".gitignore", "README.md", "env.py", "pyproject.toml",
    "tests/test_benchmark.py", "PACKAGE/__init__.py", "PACKAGE/env.py", "PACKAGE/expert.py",
    "PACKAGE/init_states.py", "PACKAGE/scene.xml", "PACKAGE/simulator.py", "PACKAGE/suites.py",
}  # fmt: skip
ODD_NAME = "grosse-xl-push-it-to-the-limit-a-very-lo"


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("a b")
    return make(place, answers=ODD)


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        ({}, "push-puck"),
        (ODD, ODD_NAME),
        ({"name": "with-dashes"}, "with-dashes"),
        ({"name": "3D things!"}, "3d-things"),
        ({"name": "推"}, "tui"),
        ({"name": "***"}, "benchmark"),
    ],
)
def test_the_exact_set_of_files(tmp_path, answers, name):
    project = make(tmp_path, answers=answers)
    package = f"envhub_{name.replace('-', '_')}"
    assert project.name == f"envhub-{name}"
    assert files_of(project) == {file.replace("PACKAGE", package) for file in FILES}
    for path, content in snapshot(project).items():
        assert b"cookiecutter" not in content, path


@pytest.mark.parametrize("answers", [{}, ODD], ids=["default", "odd"])
def test_cookiecutter_itself_gives_the_same_bytes(tmp_path, answers):
    (tmp_path / "new").mkdir()
    ours = make(tmp_path / "new", answers=answers)
    words = [f"{key}={value}" for key, value in answers.items()]
    argv = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", tmp_path / "plain"]
    run(*argv, ROOT / "templates" / "benchmark", *words, cwd=tmp_path, HOME=str(tmp_path))
    assert snapshot(tmp_path / "plain" / ours.name) == snapshot(ours)


def test_its_metadata(odd):
    project = tomllib.loads((odd / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == f"envhub-{ODD_NAME}"
    assert project["authors"] == [{"name": ODD["author"]}]
    assert project["description"] == ODD["description"]
    assert project["entry-points"]["envhub"] == {ODD_NAME: f"envhub_{ODD_NAME.replace('-', '_')}"}
    for text in project["dependencies"]:
        assert not text.startswith("envhub>=")
        assert text.split("=")[0].rstrip(">") != "envhub"  # somebody else's package


def test_its_card_has_the_tag_and_a_place_for_the_checks(odd):
    card = (odd / "README.md").read_text(encoding="utf-8")
    head = card.split("---")[1]
    assert "\n- envhub\n" in head
    assert "<!-- envhub check -->" in card
    assert ODD["description"] in card


def test_its_style(odd):
    check_style(odd)


@needs_mujoco
def test_listing_its_tasks_imports_no_simulator(odd):
    code = (
        f"import sys; sys.path.insert(0, '.'); import envhub_{ODD_NAME.replace('-', '_')} as p\n"
        "[benchmark] = p.envhub_benchmarks()\n"
        "assert len(benchmark.tasks()) == 6\n"
        "assert not {'mujoco', 'OpenGL'} & set(sys.modules)\n"
    )
    run(sys.executable, "-c", code, cwd=odd)


@needs_mujoco
@needs_egl
def test_drawing_does_not_change_an_episode(odd, tmp_path):
    """The expert reads no pixels; one that does sees the same states, wherever it looks from."""
    drawing = _drawing_expert(odd, tmp_path)
    played = [
        envhub.evaluate(
            odd, policy, tasks=["push-left"], episodes=3, workers=1, out=tmp_path / name,
            perturb=perturb,
        ).records()
        for name, policy, perturb in (
            ("expert", "expert", None),
            ("drawing", drawing, None),
            ("moved", drawing, {"camera": 0.02, "light": 0.3}),
        )
    ]  # fmt: skip
    own, drawn, moved = ([(r.trace, r.end_state) for r in records] for records in played)
    assert own == drawn == moved
    seen = [record.first_observation for records in played[1:] for record in records]
    assert len(set(seen)) == 6


def _drawing_expert(project: Path, place: Path) -> str:
    """A policy that acts as the expert does, and has every frame drawn."""
    file = place / "drawing.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(project)!r})\n"
        f"from envhub_{ODD_NAME.replace('-', '_')} import expert\n"
        "class Drawing(expert.Expert):\n"
        "    placement = 'process'\n"
        "    needs = None\n"
        "    def act(self, obs, episodes):\n"
        "        assert obs['pixels'].std() > 10\n"
        "        return super().act(obs, episodes)\n"
        "def make_policy(benchmark, observation_space, action_space):\n"
        "    return Drawing()\n"
    )
    return str(file)


@needs_mujoco
@needs_egl
@needs_sandbox
@pytest.mark.timeout(300)
def test_installed_tested_published_and_evaluated_by_its_pin(odd, local_hub, tmp_path):
    wheel = build_wheel(odd, tmp_path / "dist")
    assert wheel.name.startswith(f"envhub_{ODD_NAME.replace('-', '_')}-0.1.0")
    python = install(wheel, tmp_path / "clean")
    assert "passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=odd)
    hub = {"HF_ENDPOINT": local_hub.endpoint, "HF_TOKEN": local_hub.token}
    command = (python, "-m", "envhub")
    ref = run(*command, "publish", odd, "me/odd", "--yes", cwd=tmp_path, **hub).strip()
    assert ref.startswith("me/odd@")
    question = ("--policy", "expert", "--episodes", 2, "--workers", 2, "--quiet")
    run(*command, "eval", ODD_NAME, *question, "--out", "installed", cwd=tmp_path)
    pinned = ("eval", ref, *question, "--out", "pinned", "--trust-remote-code")
    run(*command, *pinned, cwd=tmp_path, **hub)
    installed, published = (envhub.open_run(tmp_path / d) for d in ("installed", "pinned"))
    assert published.info["protection"]["sandbox"] != "none"
    records = [same(record) for record in installed.records()]
    assert len(records) == 12
    assert records == [same(record) for record in published.records()]


@needs_mujoco
def test_its_numbers_are_not_trivial(odd, tmp_path):
    rates = {}
    for policy in ("expert", "random", "zero"):
        found = envhub.evaluate(odd, policy, episodes=10, workers=2, out=tmp_path / policy)
        rates[policy] = found.summary().overall.rate
    assert rates["expert"] >= 0.95
    assert rates["random"] <= 0.1
    assert rates["zero"] == 0.0


def test_the_wheel_of_envhub_has_the_templates(tmp_path):
    wheel = build_wheel(ROOT, tmp_path / "dist")
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    ).stdout
    for kind in ("benchmark", "policy", "wrapper"):
        assert f"envhub/templates/{kind}/cookiecutter.json" in listed
    assert "hatch_build" not in listed
