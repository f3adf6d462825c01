"""Attacks by what an env file declares: nothing is run, and one sentence names file and line."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from support.attacks import env_file, envhub
from support.wheels import make_wheel

from envhub.errors import ContractError
from envhub.sources.requirements import read_requirements


def block(*lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", ""])


ODD = {
    "dependencies as a table": (["[dependencies]", 'x = "1"'], 2, "list of strings, found a table"),
    "dependencies as a number": (["dependencies = 3"], 2, "list of strings, found 3"),
    "tables among them": (["dependencies = ['x', {a = 1}]"], 2, "but one is a table"),
    "lists among them": (["dependencies = [['x']]"], 2, "but one is a list"),
    "numbers among them": (["dependencies = [", "  1979-05-27,", "]"], 2, "but one is datetime"),
    "very many": ([f"dependencies = {['x'] * 501}"], 2, "501 dependencies are declared"),
    "a very long block": ([f"# {'x' * 70_000}"], 1, "more than 65,536 characters"),
    "a very long one": ([f"dependencies = ['{'x' * 501}']"], 2, "more than 500 characters"),
    "a marker nested deeply": (
        [f"dependencies = ['x; {'(' * 200}python_version > \"3\" and{')' * 200}']"],
        2,
        "not a valid requirement",
    ),
    "a marker without a value": (
        ["dependencies = ['x; platform_system ~= \"3\"']"],
        2,
        "not a valid requirement",
    ),
    "a marker of nothing": (['dependencies = [\'x; "a" < "b"\']'], 2, "not a valid requirement"),
    "broken TOML": (["dependencies = ['x']", "dependencies = ="], 3, "not valid TOML"),
    "TOML that ends early": (["dependencies = [", "  'x',"], 3, "not valid TOML"),
    "lists nested deeply": ([f"x = {'[' * 5000}"], 1, "nested too deeply"),
    "a number of 5,000 digits": ([f"x = {'9' * 5000}"], 2, "not valid TOML"),
    "a key twice": (["dependencies = []", "dependencies = []"], 3, "not valid TOML"),
    "a tool that is a number": (["tool = 3"], 2, "tool must be a table, found 3"),
    "a tool that is a list": (["tool = [{}]"], 2, "tool must be a table, found a list"),
    "envhub that is a number": (["[tool]", "envhub = 3"], 3, "tool.envhub must be a table"),
    "envhub that is a list": (["[[tool.envhub]]", "lock = 'x'"], 2, "tool.envhub must be a table"),
    "a lock that is a table": (["[tool.envhub.lock]", "x = 1"], 2, "name of a file"),
    "a lock that is the directory": (["[tool.envhub]", "lock = '.'"], 3, "name of a file"),
    "a lock above": (["[tool.envhub]", "lock = '..'"], 3, "name of a file"),
    "uv's settings": (["[tool.uv]", "index-url = 'http://127.0.0.1'"], 2, "'tool.uv'"),
    "uv's settings, inline": (["tool = {uv = {no-index = true}}"], 2, "'tool.uv'"),
    "a key with an escape": (['"a\\u001b[2Jb" = 1'], 1, r"'a\x1b[2Jb'"),
    "Python as a list": (["requires-python = []"], 2, "not a version specifier"),
    "Python as a table": (["[requires-python]", "a = 1"], 2, "not a version specifier"),
    "Python of 501 characters": ([f"requires-python = '>={'3' * 501}'"], 2, "not a version"),
    "Python in other digits": (["requires-python = '>=\uff13.11'"], 2, "not a version specifier"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_block_is_one_sentence(case):
    lines, number, problem = ODD[case]
    with pytest.raises(ContractError) as caught:
        read_requirements(block(*lines), "envs/env.py")
    said = str(caught.value)
    assert said.startswith(f"envs/env.py, line {number}: "), said
    assert problem in said
    assert re.fullmatch(r"[ -~]{1,400}", said), said


LOOK_ALIKES = [
    "x @ https://127.0.0.1/x.whl",
    "x @ file:///tmp/x",
    "x@file:///tmp/x",
    "git+https://127.0.0.1/x",
    "https://127.0.0.1/x.whl",
    "file:///tmp/x",
    "./x",
    "../x",
    "/tmp/x",
    "x/y",
    "-r x",
    "-e .",
    "--index-url http://127.0.0.1",
    "x --index-url http://127.0.0.1",
    "x --hash=sha256:0",
    "x # comment",
    "x\n--index-url http://127.0.0.1",
    "x\\\n-r y",
    "x; python_version > '3\n-r y'",
    "x; python_version > '3' # y",
    "${HOME}",
    "x==${VERSION}",
    "",
    " ",
    "num\u0440y",
    "\uff4eumpy",
    "numpy==\uff11.0",
    "numpy==\u0661.0",
    "numpy\u200b",
    "numpy\u202e",
    "numpy; python_version > '\u0663'",
    "evil-1.0-py3-none-any.whl",
    "evil.tar.gz",
    "EVIL.ZIP",
]


@pytest.mark.parametrize("text", LOOK_ALIKES, ids=ascii)
def test_what_only_looks_like_a_requirement_is_refused(text):
    lines = ["dependencies = [", f"  {json.dumps(text)},", "]"]
    with pytest.raises(ContractError, match=r"^env\.py, line [23]: "):
        read_requirements(block(*lines))


def test_many_blocks_that_never_end_take_no_time():
    """With a regular expression the time grows with the square of the lines."""
    assert read_requirements("# /// script\n" * 200_000).packages == ()


@pytest.mark.parametrize("command", ["trust", "info", "lock"])
def test_commands_that_only_read_it(publish, command):
    ref = publish(block("tool = 3"))
    done = envhub(command, ref)
    assert done.returncode == 4, done.stderr
    assert done.stdout == ""
    assert done.stderr == "envhub: env.py, line 2: tool must be a table, found 3.\n"


def test_a_pth_file_of_a_package_is_executed_in_the_sandbox_only(
    publish, real_runtimes, some_sandbox, tmp_path
):
    """Python executes its lines at each start with `site`: a guard and a builder are without."""
    marker = tmp_path / "marker"
    line = f"import sys; exec(\"try: open({str(marker)!r}, 'w')\\nexcept OSError: pass\")\n"
    make_wheel(real_runtimes, "pathfinder", "1.0", {"pathfinder.pth": line})
    block = "# /// script\n# dependencies = ['pathfinder']\n# ///\n"
    ref = publish(block + env_file(top="import pathfinder"))
    asked = ("--trust-remote-code", "--sandbox", some_sandbox, "--episodes", "1", "--workers", "1")
    done = envhub("eval", ref, *asked)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    [found] = Path(os.environ["ENVHUB_HOME"]).glob("runtimes/*/venv/lib/*/*/pathfinder.pth")
    subprocess.run([found.parents[3] / "bin" / "python", "-c", ""], check=True)
    assert marker.exists()
