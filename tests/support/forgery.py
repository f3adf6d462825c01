"""Runs changed by hand, as somebody would who wants another result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from envhub.evaluation.attempt import hash_trace
from envhub.results.journal import write_json
from envhub.results.run import Run, open_run
from envhub.results.seal import seal
from envhub.results.summary import to_json


def change_record(run: Run, number: int, **values: Any) -> None:
    """Change fields of a record; `return` is written with an underscore."""
    path = run.directory / "episodes.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record, known in zip(records, _numbers(run, records), strict=True):
        if known == number:
            record.update({key.rstrip("_"): value for key, value in values.items()})
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def remove_record(run: Run, number: int) -> None:
    """Remove the record of an episode."""
    path = run.directory / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    numbers = _numbers(run, [json.loads(line) for line in lines])
    kept = (line for line, known in zip(lines, numbers, strict=True) if known != number)
    path.write_text("".join(kept))


def _numbers(run: Run, records: list[dict[str, Any]]) -> list[int]:
    tasks, count = list(run.info["plan"]["tasks"]), run.info["plan"]["episodes"]
    return [tasks.index(record["task"]) * count + record["episode"] for record in records]


def load_arrays(directory: Path, number: int) -> tuple[Any, Any]:
    """Return the stored actions and steps of an episode."""
    with (directory / "actions" / f"{number}.npy").open("rb") as file:
        return np.load(file), np.load(file)


def save_arrays(directory: Path, number: int, actions: Any, steps: Any) -> None:
    """Store the actions and steps of an episode."""
    (directory / "actions").mkdir(exist_ok=True)
    with (directory / "actions" / f"{number}.npy").open("wb") as file:
        np.save(file, actions)
        np.save(file, steps)


def change_actions(run: Run, number: int, change: Callable[[Any], None]) -> None:
    """Change the actions of an episode."""
    actions, steps = load_arrays(run.directory, number)
    change(actions)
    save_arrays(run.directory, number, actions, steps)


def change_steps(run: Run, number: int, change: Callable[[Any], None]) -> None:
    """Change rewards or flags of an episode."""
    actions, steps = load_arrays(run.directory, number)
    change(steps)
    save_arrays(run.directory, number, actions, steps)


def agree(run: Run, number: int, **values: Any) -> None:
    """Make the record, the trace and the summary agree with changed files."""
    actions, steps = load_arrays(run.directory, number)
    total = 0.0
    for reward in steps["reward"]:
        total += float(reward)
    change_record(
        run, number, trace=hash_trace(actions, steps), return_=total, steps=len(steps), **values
    )
    summarize_again(run)


def summarize_again(run: Run) -> None:
    """Make the summary agree with changed records."""
    write_json(run.directory / "summary.json", to_json(open_run(run.directory).summary()))


def change_manifest(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change `run.json`, and seal it: the forger is this user."""
    path = directory / "run.json"
    info = json.loads(path.read_text())
    change(info)
    write_json(path, seal({key: value for key, value in info.items() if key != "seal"}))
