"""`envhub new`: what it asks, what it refuses, and what it leaves behind."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import refused
from support.projects import ODD, files_of, make, new
from support.run_tools import ENVHUB, envhub, snapshot
from support.terminal import at_terminal

from envhub.authoring.templates import questions


@pytest.mark.parametrize("kind", ["benchmark", "policy", "wrapper"])
def test_at_most_six_questions(kind):
    assert 3 <= len(questions(kind)) <= 6
    assert all(question.text for question in questions(kind))


def test_questions_are_asked_at_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = "Tidy Up\n\nGrace Hopper\n"
    code, shown = at_terminal([ENVHUB, "new"], typed)
    assert code == 0, shown
    assert "Name of the benchmark [Push Puck]: " in shown
    assert "Author [Your Name]: " in shown
    assert "Made envhub-tidy-up." in shown
    text = (tmp_path / "envhub-tidy-up" / "pyproject.toml").read_text()
    assert 'authors = [{ name = "Grace Hopper" }]' in text
    assert 'description = "Push a puck onto a goal, in MuJoCo."' in text


def test_the_directory_names_the_benchmark_and_the_next_command_is_printed(tmp_path):
    done = new(tmp_path, "./my first one")
    assert (done.code, done.out) == (0, "envhub eval './my first one' --policy expert\n"), done.err
    assert "envhub_my_first_one/__init__.py" in files_of(tmp_path / "my first one")
    assert not stat.S_IMODE((tmp_path / "my first one").stat().st_mode) & 0o022


def test_a_directory_in_another_place(tmp_path):
    done = new(tmp_path, str(tmp_path / "envhub-stack"))
    assert done.code == 0, done.err
    assert "envhub_stack/env.py" in files_of(tmp_path / "envhub-stack")


def test_every_file_is_text_and_the_answers_are_in_it(tmp_path):
    project = make(tmp_path, answers=ODD)
    for name, content in snapshot(project).items():
        assert content.decode("utf-8").isascii() or name in ("README.md", "pyproject.toml")
    assert ODD["name"] in (project / "README.md").read_text(encoding="utf-8")


# What is refused


@pytest.mark.parametrize("what", ["file", "directory", "empty", "dangling"])
def test_nothing_is_overwritten(tmp_path, what):
    place = tmp_path / "taken"
    match what:
        case "file":
            place.write_text("mine")
        case "directory":
            place.mkdir()
            (place / "mine").write_text("mine")
        case "empty":
            place.mkdir()
        case "dangling":
            place.symlink_to("nowhere")
    before = [snapshot(tmp_path), os.listdir(tmp_path)]
    refused(new(tmp_path, "taken"), 2, "taken exists: name a directory that does not.")
    assert [snapshot(tmp_path), os.listdir(tmp_path)] == before


def test_the_templates_own_name_may_be_taken_too(tmp_path):
    (tmp_path / "envhub-push-puck").mkdir()
    refused(new(tmp_path), 2, "envhub-push-puck exists")
    assert os.listdir(tmp_path) == ["envhub-push-puck"]


WRONG = {
    "a parent that is missing": (("a/b",), "a is not a directory: make it first."),
    "no such question": (("x", "--set", "nme=x"), "No answer is called 'nme'. Did you mean"),
    "no value": (("x", "--set", "name"), "--set 'name' is not KEY=VALUE"),
    "twice": (("x", "--set", "name=a", "--set", "name=b"), "--set 'name' is given twice."),
    "empty": (("x", "--set", "author= "), "The answer to 'author' must be one line of 1 to 200"),
    "long": (("x", "--set", f"author={'a' * 201}"), "must be one line of 1 to 200"),
    "two lines": (("x", "--set", "author=a\nb"), "must be one line of 1 to 200"),
    "a template": (("x", "--set", "author={{ 1 }}"), "must not have two braces"),
    "our own": (("x", "--set", "name=Core"), "envhub-core is EnvHub's own package"),
    "both": (("x", "--policy", "--from", "gym:CartPole-v1"), "omit --policy"),
    "an empty place": (("",), "is empty: name a path."),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_answers_are_refused_and_leave_nothing(tmp_path, case):
    arguments, words = WRONG[case]
    refused(new(tmp_path, *arguments), 2, words)
    assert os.listdir(tmp_path) == []


def test_without_a_terminal_nobody_is_asked(tmp_path):
    refused(envhub("new", "x", cwd=tmp_path), 2, "there is no terminal to ask at. Add --no-input")
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_written(tmp_path):
    refused(new(tmp_path, "/proc/fresh"), 2, "Nothing was made: /proc cannot be written: ")


# What is left behind


def test_nothing_is_left_when_rendering_fails(tmp_path):
    """A folder of the project cannot be made: its name is too long for the file system."""
    code = (
        "import sys, envhub.authoring.templates as t\n"
        "from pathlib import Path\n"
        "try:\n"
        "    t.make_project('benchmark', {'__package': 'x' * 300}, Path('fresh'))\n"
        "except t.UsageError as exc:\n"
        "    print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Nothing was made: "), done
    assert os.listdir(tmp_path) == []


def test_the_home_is_left_alone(tmp_path):
    """cookiecutter's own command keeps every answer there."""
    make(tmp_path)
    home = Path(os.environ["HOME"])
    assert not [path for path in home.rglob("*") if "cookie" in path.name]


def test_without_cookiecutter_it_says_what_to_install(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['cookiecutter'] = None\n"
        "sys.argv = ['envhub', 'new', 'x', '--no-input']\n"
        "from envhub.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        "envhub: envhub new needs cookiecutter, which is not installed: pip install cookiecutter\n"
    )
    assert os.listdir(tmp_path) == []


def test_no_other_command_imports_cookiecutter():
    code = (
        "import sys, click\n"
        "from envhub.cli import COMMANDS, group\n"
        "for name in COMMANDS:\n"
        "    group.get_command(click.Context(group), name)\n"
        "assert 'cookiecutter' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
