"""What tests of `envhub eval` share: the command, and what a run directory must look like."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from support.paths import ASSETS

ENVHUB = Path(sys.executable).with_name("envhub")

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


def start(*arguments: object, cwd: Path = ASSETS, **more: str) -> "subprocess.Popen[str]":
    """Start the command."""
    return subprocess.Popen(
        [ENVHUB, *map(str, arguments)],
        cwd=cwd,
        env=variables(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def envhub(*arguments: object, cwd: Path = ASSETS, **more: str) -> Answer:
    """Run the command."""
    return ended(start(*arguments, cwd=cwd, **more))


def ended(command: "subprocess.Popen[str]") -> Answer:
    """Wait for a command."""
    out, err = command.communicate()
    return Answer(command.returncode, out, err)


@contextmanager
def ending(command: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """See to it that a command has ended, whatever happens to its test."""
    with command:
        try:
            yield command
        finally:
            command.kill()


def wait_until(condition: Callable[[], object]) -> None:
    """Look again and again; pytest's own limit is the only one."""
    while not condition():
        time.sleep(0.005)


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


def descendants(pid: int) -> dict[int, tuple[int, str]]:
    """The processes below one: each one's parent and the command line."""
    below: dict[int, tuple[int, str]] = {}
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError):
                continue  # it has ended meanwhile
            parents[int(entry.name)] = (parent, line)
    grew = True
    while grew:
        new = {p: v for p, v in parents.items() if p not in below and v[0] in (pid, *below)}
        below.update(new)
        grew = bool(new)
    return below


def kill(pid: int) -> None:
    """End a process at once, if it is there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
