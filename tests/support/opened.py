"""Which files a command opens, as the interpreter's own audit hook sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import json, os, sys

opened = []

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        opened.append(os.fsdecode(arguments[0]))

sys.addaudithook(note)
from envhub.cli import main

try:
    main()
except SystemExit as ended:
    code = ended.code
else:
    code = 0
with open(os.environ["OPENED"], "w") as file:
    json.dump([code, opened], file)
"""


def opened_by(place: Path, *arguments: object) -> tuple[int, list[str]]:
    """Run the command in a process of its own; returns its code, and the paths in order."""
    noted = place / "opened.json"
    variables = {**os.environ, "OPENED": str(noted)}
    words = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    subprocess.run(words, env=variables, check=True, capture_output=True, text=True)
    code, paths = json.loads(noted.read_text())
    return code or 0, paths
