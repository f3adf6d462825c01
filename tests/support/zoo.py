"""The zoo of broken envs, and what `envhub check` says about each of its tasks."""

import json
import os
from pathlib import Path
from typing import Any

from envhub.check import CHECKS
from support.paths import ASSETS
from support.run_tools import envhub

ZOO = ASSETS / "zoo"
GOOD = ("good", "good-ending", "good-context")
FILES = {"loads", "listing-light", "memory-declared", "success-declared"}
"""Checks about a whole benchmark: broken by files of their own."""
PROCESSES = (
    "no-gl-before-reset", "same-in-other-process", "close-frees-processes", "close-frees-threads",
    "no-network", "writes-scratch", "runs-in-sandbox",
)  # fmt: skip
"""Checks that need a process of the env's own."""
INLINE = tuple(c.name for c in CHECKS if c.name not in {*FILES, *PROCESSES})


def check(ref: Path | str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `envhub check --quick --json`; return its exit code and its answer."""
    argv = ["check", str(ref), "--quick", "--json", *arguments]
    path = {"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {}
    done = envhub(*argv, **path)
    assert done.code in (0, 1), done.err
    return done.code, json.loads(done.out)


def failures(answer: dict[str, Any], task: str | None = None) -> list[str]:
    """The names of the checks that failed, for one task or for all."""
    return [
        row["name"]
        for row in answer["checks"]
        if row["status"] == "failed" and task in (None, row["task"])
    ]
