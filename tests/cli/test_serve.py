"""`envhub serve`: what is refused. What it serves: tests/plugins/servers/test_serve.py."""

import pytest
from support.commands import envhub as run_envhub
from support.commands import refused
from support.paths import DOCS

REACH = f"{DOCS}/examples/reach"


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
