"""The real command, run as a process with a clean environment."""

import re
from pathlib import Path

from envhub.sandbox.variables import kernel_variables
from support.forked import run_command
from support.paths import ASSETS
from support.run_tools import Answer, variables

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def envhub(*arguments: str, cwd: Path = ASSETS, **more: str) -> Answer:
    """Run the command; the answer has every byte of what it printed."""
    given = variables(**(kernel_variables() | more))
    done = run_command(arguments, directory=cwd, variables=given)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def refused(answer: Answer, code: int, *said: str) -> None:
    """Check an error: its code, its words, nothing else, and nothing that rewrites a terminal."""
    assert (answer.code, answer.out) == (code, ""), answer
    for part in said:
        assert part in answer.err, answer.err
    assert "Traceback" not in answer.err
    assert not CONTROL.search(answer.err), answer.err
