"""`envhub serve`: what is refused. What it serves: tests/plugins/servers/test_serve.py."""

import subprocess
import sys

import pytest
from support.commands import envhub as run_envhub
from support.commands import refused
from support.paths import DOCS
from support.run_tools import variables

REACH = f"{DOCS}/examples/reach"


def test_without_the_library_of_connections(tmp_path):
    """As after an installation without dependencies."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfound = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'websockets' else found(name, *a)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "envhub", "serve", "random", "--for", REACH],
        env=variables(PYTHONPATH=str(tmp_path)), capture_output=True, text=True,
    )  # fmt: skip
    said = "envhub: envhub serve needs websockets, which is not installed: pip install websockets\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["random", "--for", "./nothing"], 2, "nothing"),
        (["./missing.py", "--for", REACH], 2, "missing.py"),
        (["random", "--for", REACH, "--keys", "pixels=a"], 2, "must hold what the policy reads"),
        (["random", "--for", REACH, "--host", "203.0.113.1"], 2, "cannot be listened at"),
    ],
)
def test_what_cannot_be_served(arguments, code, said, tmp_path):
    refused(run_envhub("serve", *arguments, "--port", "0", cwd=tmp_path), code, said)
