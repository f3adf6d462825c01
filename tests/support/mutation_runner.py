"""Runs commands on changed run directories, each in a process with little memory and time.

    python mutation_runner.py PLACE FIRST COUNT BASE...

Prints a line of JSON for each command that ends with a traceback, too late, or with a code that no
page describes. What the command needs is imported once, before any process is forked.
"""

import json
import os
import resource
import shutil
import signal
import sys
import traceback
from pathlib import Path

from envhub import cli
from envhub.errors import ExitCode
from support.command_server import preload
from support.mutations import mutate

MEMORY = 500 * 2**20
SECONDS = 10


def commands(run: Path, base: Path) -> list[list[str]]:
    """What reads a run."""
    here, good = str(run), str(base)
    return [
        ["show", here],
        ["show", here, "--json", "--require", "rate>=0.5"],
        ["runs", here],
        ["runs", str(run.parent), "--json"],
        ["report", here],
        ["report", str(run.parent)],
        ["compare", good, here],
        ["compare", here, good, "--json"],
        ["verify", here],
        ["replay", here, "t:0"],
        ["eval", "--resume", here],
    ]


def run_forked(arguments: list[str], output: Path) -> str | None:
    """Run a command; returns what is wrong with how it ended."""
    child = os.fork()
    if child == 0:
        _become(arguments, output)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    said = output.read_text(errors="replace")
    if code == -signal.SIGALRM:
        return f"it took more than {SECONDS} s"
    if code not in set(ExitCode) or "Traceback (most recent call last)" in said:
        return f"code {code}: {said[-1500:]}"
    return None


def _become(arguments: list[str], output: Path) -> None:
    code = 70
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(descriptor, number)
        used = next(
            int(line.split()[1]) * 1024
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmData:")
        )
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
        signal.alarm(SECONDS)
        sys.argv = ["envhub", *arguments]
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    """Change the bases in turn, and print what is wrong."""
    place, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    bases = [Path(name) for name in sys.argv[4:]]
    preload()
    for number in range(first, first + count):
        base, folder = bases[number % len(bases)], place / str(number)
        folder.mkdir()
        changed = mutate(base, folder / "run", number)
        for arguments in commands(folder / "run", base):
            problem = run_forked(arguments, place / "output")
            if problem is not None:
                found = {
                    "number": number,
                    "changed": changed,
                    "command": arguments[:1] + arguments[2:],
                    "problem": problem,
                }
                print(json.dumps(found), flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
