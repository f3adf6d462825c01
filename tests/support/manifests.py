"""Runs written by hand: a `run.json`, and records from a letter an episode."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.run_json import MANIFEST, info_of

_TASK = {"horizon": 10, "success": "once", "init_states": 0}

INFO: dict[str, Any] = MANIFEST | {
    "benchmark": MANIFEST["benchmark"]
    | {"ref": "./env", "name": "env", "files": {"env.py": "sha256:aa"}, "env_args": {}},
    "plan": MANIFEST["plan"]
    | {
        "suites": {"s": ["near", "far"]},
        "episodes": 10,
        "seeding": "task",
        "tasks": {name: dict(_TASK) for name in ("near", "far")},
    },
    "policy": MANIFEST["policy"] | {"kind": "builtin", "ref": "zero", "path": None, "sha256": None},
    "runtime": MANIFEST["runtime"] | {"packages": {"mujoco": "3.3.0"}},
}


def write_run(
    directory: Path, change: Callable[[dict[str, Any]], None] = lambda info: None, **tasks: str
) -> Path:
    """Write a run: for each task a text, with a letter an episode (see `record`)."""
    info = copy.deepcopy(INFO)
    change(info)
    directory.mkdir()
    (directory / "run.json").write_text(json.dumps(info))
    suites = {task: suite for suite, named in info["plan"]["suites"].items() for task in named}
    plan = info_of(info).plan
    lines = [
        json.dumps(
            record(task, episode, outcome)
            | {"suite": suites[task], "seed": plan.seeds(task)[episode]}
        )
        for task, outcomes in tasks.items()
        for episode, outcome in enumerate(outcomes)
        if outcome != " "
    ]
    (directory / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return directory


def record(task: str, episode: int, outcome: str) -> dict[str, object]:
    """1: success, 0: failure, p: the policy raised, e: the env failed, ?: success not reported."""
    status = {"p": "policy_error", "e": "env_error"}.get(outcome, "ok")
    error = None
    if outcome in "pe":
        where = "policy" if outcome == "p" else "env"
        error = {"where": where, "type": "ValueError", "message": "no", "step": 1}
    return {
        "suite": "s",
        "task": task,
        "episode": episode,
        "seed": episode,
        "init_state": None,
        "status": status,
        "success": {"1": True, "0": False}.get(outcome),
        "success_step": 3 if outcome == "1" else None,
        "end": "error" if error else "success" if outcome == "1" else "truncated",
        "return": 1.0,
        "steps": 3,
        "out_of_bounds": 0,
        "trace": "sha256:0",
        "seconds": 0.1,
        "attempts": 1,
        "error": error,
    }
