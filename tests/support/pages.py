"""The commands of a page of the documentation, run in one shell, and what they print."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.paths import DOCS
from support.run_tools import variables

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "@@ ended"


@dataclass(frozen=True)
class Command:
    """A command, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]


def commands_of(page: str) -> list[Command]:
    """The commands of all `console` blocks of a page; each is a line that begins with `$ `."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found: list[Command] = []
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line.removeprefix("$ "), ()))
            else:
                found[-1] = Command(found[-1].line, (*found[-1].shown, line))
    return found


def run_page(page: str, place: Path, **more: str) -> list[tuple[Command, int, str]]:
    """Run the commands of a page in a directory; each with its exit code and what it printed."""
    (place / "docs").symlink_to(DOCS)
    commands = commands_of(page)
    script = "exec 2>&1\n" + "".join(f'{c.line}\necho "{_MARK} $?"\n' for c in commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env=variables(PATH=path, COLUMNS="80", **more),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    parts = re.split(rf"^{_MARK} (\d+)\n", done.stdout, flags=re.MULTILINE)
    answers = list(zip(parts[::2], parts[1::2], strict=False))
    assert len(answers) == len(commands), done.stdout + done.stderr
    return [(c, int(code), out) for c, (out, code) in zip(commands, answers, strict=True)]


def agrees(shown: tuple[str, ...], printed: str) -> bool:
    """Whether a page shows what was printed. `...` stands for lines, or for a part of one."""
    pattern = ""
    for line in shown:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(line).replace(r"\.\.\.", ".*") + r"[ ]*\n"
    return re.fullmatch(pattern, printed) is not None
