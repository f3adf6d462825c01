"""What tests of `envhub eval` share: the command, and what a run directory must look like."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envhub.sandbox.variables import kernel_variables
from support.disks import SmallDisk
from support.forked import ENVHUB, plain_text, run_command
from support.paths import ASSETS

WALK = ASSETS / "run_walk"
WALKERS = ASSETS / "run_policies" / "walkers.py"

Outcomes = dict[tuple[str, int], dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


def variables(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **more}


def start(
    *arguments: object, cwd: Path = ASSETS, disk: SmallDisk | None = None, **more: str
) -> "subprocess.Popen[str]":
    """Start the command, where it sees a disk if one is given."""
    return subprocess.Popen(
        [*(disk.enter(cwd) if disk else ()), ENVHUB, *map(str, arguments)],
        cwd=cwd,
        env=variables(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def envhub(
    *arguments: object, cwd: Path = ASSETS, disk: SmallDisk | None = None, **more: str
) -> Answer:
    """Run the command."""
    if disk is not None:
        return ended(start(*arguments, cwd=cwd, disk=disk, **more))
    done = run_command(arguments, directory=cwd, variables=variables(**(kernel_variables() | more)))
    return Answer(done.returncode, *map(plain_text, (done.stdout, done.stderr)))


def ended(command: "subprocess.Popen[str]") -> Answer:
    """Wait for a command."""
    out, err = command.communicate()
    return Answer(command.returncode, out, err)


def outcomes(directory: Path) -> Outcomes:
    """What counts of each episode, without what may differ from run to run.

    Checks on the way that nothing was run twice that had ended well, that nothing is torn, and that
    the actions of every episode are there.
    """
    tasks = json.loads((directory / "run.json").read_text())["plan"]["tasks"]
    count = json.loads((directory / "run.json").read_text())["plan"]["episodes"]
    text = (directory / "episodes.jsonl").read_text()
    assert text.endswith("\n") or not text
    found: Outcomes = {}
    for line in text.splitlines():
        record = json.loads(line)
        key = record["task"], record["episode"]
        assert key not in found or found[key]["status"] != "ok", f"{key} was run twice"
        del record["seconds"], record["attempts"]
        found[key] = record
    numbers = {key: n for n, key in enumerate((t, k) for t in tasks for k in range(count))}
    for key, record in found.items():
        if record["steps"]:
            actions = np.load(directory / "actions" / f"{numbers[key]}.npy")
            assert len(actions) == record["steps"]
    return found


def counted(directory: Path) -> int:
    """The number of whole lines of records."""
    path = directory / "episodes.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def snapshot(directory: Path) -> dict[str, bytes]:
    """The content of every file below a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
