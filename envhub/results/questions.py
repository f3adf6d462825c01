"""How often a question was asked on this machine: of several runs, the best one shows too much.

A question is a protocol, whatever its `--seed`, and a policy. Only hashes and numbers are kept.
"""

import fcntl
import hashlib
import json
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from envhub.files import state_home, write_whole
from envhub.results.journal import read_json
from envhub.run_info import RunInfo, agreeing, canonical

_MOST_QUESTIONS = 2000
"""The latest ones are kept: less than 2 MB."""
_MOST_SEEDS = 50
_MOST_BYTES = 2**23


@dataclass(frozen=True, slots=True)
class Asked:
    """How often a question was asked, with the last time."""

    runs: int
    seeds: int
    """Of the runs; at most 50 are told apart."""

    def __str__(self) -> str:
        seeds = "one seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return (
            f"This is run {self.runs} of this question on this machine, with {seeds}. Report all "
            "of them, or say how many there were: the best of several shows too much."
        )


def questions_path() -> Path:
    """Where it is kept."""
    return state_home() / "questions.json"


def hash_question(info: RunInfo) -> str | None:
    """Return the hash of protocol and policy, without the seed; None: objects are not told apart.

    Args:
        info: The content of `run.json`.
    """
    if info.policy.kind == "object":
        return None
    asked = [item for item in agreeing(info, "protocol") if item.path != "plan.seed"]
    policy = agreeing(info.policy, "resume")
    content = [[item.path, item.words, item.value] for item in (*asked, *policy)]
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def count_question(info: RunInfo) -> Asked | None:
    """Count a run that has begun, and return how often its question was asked; None: not known.

    Raises:
        OSError: It cannot be kept.
    """
    question = hash_question(info)
    # Of the shards of a run, the first one counts.
    if question is None or (info.shard is not None and info.shard.index > 1):
        return None
    path = questions_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(_Locked(path.with_suffix(".lock"))):
        known = _read(path)
        runs, seeds = known.pop(question, (0, []))
        if info.plan.seed not in seeds and len(seeds) < _MOST_SEEDS:
            seeds = [*seeds, info.plan.seed]
        known[question] = (runs + 1, seeds)
        kept = dict(list(known.items())[-_MOST_QUESTIONS:])
        write_whole(path, json.dumps(kept).encode(), mode=0o600)
    return Asked(runs + 1, len(seeds))


class _Locked:
    """A lock between processes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        os.close(self._file)


def _read(path: Path) -> dict[str, tuple[int, list[int]]]:
    """Return the counts by question, the latest last; a damaged file has none."""
    try:
        content = read_json(path, _MOST_BYTES)
    except (FileNotFoundError, ValueError):
        return {}
    found: dict[str, tuple[int, list[int]]] = {}
    for question, value in content.items() if isinstance(content, dict) else ():
        match value:
            case [int(runs), list(seeds)] if runs > 0 and all(type(s) is int for s in seeds):
                found[question] = (runs, seeds)
    return found
