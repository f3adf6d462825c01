"""The user's own traceback, and the last place in it."""

import sys

import pytest

from envhub.declarations import Task
from envhub.loader import load_file
from envhub.tracebacks import place_of, trace_of

CODE = """
import json
import envhub

def deep():
    return json.loads("{")

def plain():
    raise RuntimeError("stuck")

def declare():
    envhub.Task("a b", "", 3)
"""


@pytest.fixture
def module(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    yield load_file(tmp_path, "mine.py", "tracebacks_mine")
    for name in [name for name in sys.modules if name.startswith("tracebacks_mine")]:
        del sys.modules[name]


def raised(function, *args):
    """What a function raises, without the frames of this test."""
    try:
        function(*args)
    except Exception as exc:
        exc.__traceback__ = exc.__traceback__.tb_next
        return exc
    raise AssertionError(function)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("plain", "mine.py, line 9, in plain"),
        ("deep", "mine.py, line 6, in deep"),
        ("declare", "mine.py, line 12, in declare"),
    ],
)
def test_the_place_is_the_last_frame_of_the_users_code(module, name, place):
    exc = raised(getattr(module, name))
    assert place_of(exc) == place
    assert f'mine.py", line {place.split()[2].rstrip(",")}' in trace_of(exc)


def test_the_traceback_begins_with_the_users_code(tmp_path):
    (tmp_path / "late.py").write_text("def fail():\n    raise KeyError(3)\n\nfail()\n")
    exc = raised(load_file, tmp_path, "late.py", "tracebacks_late")
    first = trace_of(exc).splitlines()[1]
    assert first.startswith(f'  File "{tmp_path}/late.py", line 4, in <module>')
    assert place_of(exc) == "late.py, line 2, in fail"


def test_code_that_does_not_parse(tmp_path):
    (tmp_path / "torn.py").write_text("x = 1\ndef f(:\n")
    exc = raised(load_file, tmp_path, "torn.py", "tracebacks_torn")
    assert place_of(exc) == "torn.py, line 2"


def test_a_package_is_named_by_its_directory(tmp_path):
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "__init__.py").write_text("1 / 0\n")
    exc = raised(load_file, tmp_path / "arm", "__init__.py", "tracebacks_arm")
    assert place_of(exc) == "arm/__init__.py, line 1, in <module>"


def test_an_error_of_our_own_has_no_place():
    exc = raised(Task, "a b", "", 3)
    assert place_of(exc) == ""
    assert "check_name" in trace_of(exc)
