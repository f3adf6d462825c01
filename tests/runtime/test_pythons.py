"""What is found out about interpreters by running them."""

import json
import platform
import sys
from importlib import metadata

import pytest
from packaging.markers import default_environment

from envhub.errors import ExitCode, RuntimeUnavailable, UsageError
from envhub.runtime.pythons import ask_python, find_python, locate_python, this_python


def test_an_interpreter_says_what_it_is():
    asked, this = ask_python(sys.executable), this_python()
    assert asked.markers == this.markers == dict(default_environment())
    same = ("executable", "platform", "base", "tag", "version", "name")
    assert [getattr(asked, name) for name in same] == [getattr(this, name) for name in same]
    assert asked.packages["numpy"] == metadata.version("numpy")
    assert this.version == platform.python_version()


@pytest.mark.parametrize(("specifier", "met"), [(None, True), (">=3.11", True), ("<3", False)])
def test_versions(specifier, met):
    assert this_python().meets(specifier) is met


def pretend(tmp_path, text):
    """A program that answers something, whatever it is asked."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("answer", ["", "hello", "{}", "[]", '{"markers": 1}', "3"])
def test_what_is_not_an_interpreter(tmp_path, answer):
    with pytest.raises(RuntimeUnavailable, match="is not a Python interpreter, or does not") as e:
        ask_python(pretend(tmp_path, answer))
    assert e.value.exit_code == ExitCode.RUNTIME


def test_an_interpreter_that_is_too_old(tmp_path):
    markers = dict(default_environment()) | {"python_full_version": "3.10.13"}
    program = pretend(tmp_path, json.dumps({"markers": markers}))
    with pytest.raises(RuntimeUnavailable, match=r"is Python 3.10.13; .* needs 3.11 or newer"):
        ask_python(program)


def test_paths_of_interpreters(tmp_path, monkeypatch):
    program = pretend(tmp_path, "")
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for text in ("./python", "python", "~/python", program, f"{tmp_path}/x/../python"):
        assert locate_python(text) == program
    (tmp_path / "link").symlink_to(program)
    assert locate_python("./link") == str(tmp_path / "link")  # a virtual environment is a link


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "--policy-python is empty: name an interpreter"),
        ("./absent", "--policy-python ./absent does not exist. Check the path."),
        ("python9", "--policy-python python9: there is no such command."),
        ("./venv", r"./venv is a directory. Name venv/bin/python\."),
        ("./plain", "./plain is a directory. Name the interpreter in it."),
        ("./text", "--policy-python ./text cannot be executed."),
    ],
)
def test_paths_that_are_none(tmp_path, monkeypatch, text, problem):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").touch()
    (tmp_path / "plain").mkdir()
    (tmp_path / "text").touch(0o644)
    with pytest.raises(UsageError, match=problem):
        locate_python(text)


def test_a_version_that_is_not_installed():
    with pytest.raises(RuntimeUnavailable, match=r"p.py requires Python ==3.99.\*; this is") as e:
        find_python("==3.99.*", "p.py")
    assert "--policy-python" in str(e.value)
