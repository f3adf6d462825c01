"""A command that is forked for a test is as one that a user starts."""

import os
import subprocess
from pathlib import Path

import pytest
from support import forked
from support.forked import ENVHUB, run_command
from support.paths import ASSETS
from support.run_tools import variables

from envhub.sandbox.variables import kernel_variables


@pytest.fixture
def both(monkeypatch):
    """Runs a command both ways; what each printed, and its exit code."""
    asked = []
    ask = forked._ask
    monkeypatch.setattr(forked, "_ask", lambda message: asked.append(1) or ask(message))

    def run(*arguments: str, directory: Path = ASSETS, **more: str):
        given = variables(**(kernel_variables() | more))
        mine = run_command(arguments, directory=directory, variables=given)
        assert asked == [1]
        done = subprocess.run(
            [ENVHUB, *arguments],
            cwd=directory,
            env=given,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return [(each.returncode, each.stdout, each.stderr) for each in (mine, done)]

    return run


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["--version"]),
        (2, ["show", "nowhere"]),
        (0, ["info", "./hooks", "--json"]),
        (4, ["info", "./raises", "--debug"]),
    ],
)
def test_it_prints_and_ends_alike(both, code, arguments):
    mine, started = both(*arguments)
    assert started[0] == code
    if "--debug" not in arguments:
        assert mine == started
    else:  # whose traceback begins with the process that was forked
        assert mine[0] == code
        assert mine[2].partition(b"In the host:")[0] == started[2].partition(b"In the host:")[0]


SEEN = """
import os, sys, tempfile
mask = os.umask(0)
os.umask(mask)
# In a path with a space pip's script begins with a shell, which sets these.
given = sorted((k, v) for k, v in os.environ.items() if k not in ("PWD", "OLDPWD", "SHLVL", "_"))
seen = [sys.argv, sys.path, os.getcwd(), given, tempfile.gettempdir(), mask]
raise RuntimeError(repr(seen))
"""


def test_its_code_sees_the_same(both, tmp_path):
    """With --workers 0 a benchmark is loaded by the command itself."""
    (tmp_path / "env.py").write_text(SEEN)
    (tmp_path / "temporary").mkdir()
    question = ("eval", "./env.py", "--policy", "zero", "--workers", "0", "--out", "run")
    mask = os.umask(0o027)
    try:
        mine, started = both(*question, directory=tmp_path, TMPDIR=str(tmp_path / "temporary"))
    finally:
        os.umask(mask)
    assert started[0] == 4
    assert b"temporary" in started[2]
    assert mine == started


@pytest.mark.parametrize("variable", ["PYTHONPATH", "OPENBLAS_CORETYPE", "LC_ALL"])
def test_what_an_interpreter_reads_when_it_starts_is_not_forked(variable, monkeypatch):
    monkeypatch.setattr(forked, "_ask", lambda _: pytest.fail("it was forked"))
    given = variables(**(kernel_variables() | {variable: "C"}))
    assert run_command(["--version"], directory=ASSETS, variables=given).returncode == 0
