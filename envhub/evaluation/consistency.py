"""Whether a run's files agree with each other. Reads only: nothing of the run is executed."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envhub.declarations import Task
from envhub.errors import ContractError
from envhub.evaluation.attempt import hash_trace
from envhub.evaluation.outcome import Outcome
from envhub.records import EpisodeRecord
from envhub.results import format1
from envhub.results.arrays import Arrays
from envhub.results.journal import parse_json, read_json, read_lines
from envhub.results.run import Run
from envhub.results.statistics import tasks_like_these
from envhub.results.summary import Line, summarize, to_json
from envhub.run_info import TaskInfo, hash_protocol
from envhub.wire.first_observation import hash_state
from envhub.wire.values import Array

_SHOWN = 5
_MAX_SUMMARY = 2**23
"""Bytes; 5,000 tasks have less than 4 MB."""


def find_problems(run: Run) -> list[str]:
    """Return what contradicts itself in the run's files as a whole.

    The records must be readable; those of single episodes are for `find_contradiction`.
    """
    return [*_manifest(run), *_twice(run.directory), *_summary(run)]


def find_contradiction(record: EpisodeRecord, stored: Arrays, task: TaskInfo) -> str | None:
    """Return how a record contradicts what is stored of the episode; None if it does not.

    Raises:
        FileNotFoundError: Nothing is stored, so that nothing can be compared.
    """
    actions, steps = stored.actions, stored.steps
    if record.steps and (actions is None or steps is None):
        raise FileNotFoundError("its actions or steps are missing")
    if record.first_leaves == () and record.first_observation != _state(record):
        return "its first_observation is not the hash of its initial state"
    taken = 0 if steps is None else len(steps)
    kept = 0 if actions is None else len(actions)
    if not taken == kept == record.steps:
        return f"it has {record.steps} steps, {kept} stored actions and {taken} stored rewards"
    if hash_trace(actions, steps) != record.trace:
        return "its trace is not the hash of its stored actions, rewards and flags"
    try:
        outcome = _outcome(steps, task)
    except ContractError as error:
        return str(error)
    if record.error is not None or record.status != "ok":
        problem = _contradicted_error(record, outcome)
        if problem is not None:
            return problem
    elif not outcome.ended:
        return f"it had not ended after {taken} steps"
    found = _facts(record.return_, record.success_step, record.success, record.end)
    success = None if record.error else outcome.success
    end = "error" if record.error else outcome.end
    due = _facts(outcome.return_, outcome.success_step, success, end)
    for name, value in found.items():
        if value != due[name]:
            return f"its {name} is {value}, and its stored steps say {due[name]}"
    return None


def _contradicted_error(record: EpisodeRecord, outcome: Outcome) -> str | None:
    if record.error is None or record.success is not None or record.end != "error":
        return f"its status is {record.status}, and the rest of it says otherwise"
    if outcome.ended:
        return "its error came after the episode had ended"
    if record.error.step != record.steps:
        return f"its error came after {record.error.step} steps, and it has {record.steps}"
    return None


def _state(record: EpisodeRecord) -> str:
    return f"sha256:{hash_state(record.init_state, record.seed).hex()}"


def _facts(total: float, step: int | None, success: bool | None, end: str) -> dict[str, Any]:  # noqa: FBT001
    return {"return": total, "success_step": step, "success": success, "end": end}


def _outcome(steps: Array | None, task: TaskInfo) -> Outcome:
    """Apply the rule for an episode's end and success to stored steps.

    Raises:
        ContractError: It ended before its last step.
    """
    outcome = Outcome(Task("stored", "", task.horizon, task.init_states, task.success))
    for number, step in enumerate(() if steps is None else steps):
        if outcome.ended:
            raise ContractError(f"by its stored steps it had ended after {number} steps")
        success = None if step["success"] < 0 else bool(step["success"])
        outcome.add(
            [float(step["reward"])],
            [success],
            terminated=bool(step["terminated"]),
            truncated=bool(step["truncated"]),
        )
    return outcome


def _manifest(run: Run) -> Iterator[str]:
    info = run.run_info
    if info.format == 1:
        due = {format1.hash_protocol(info)}
    else:
        due = {hash_protocol(info), hash_protocol(info, every_file=True)}
    if info.protocol not in due:
        yield "The protocol in run.json is not the hash of what it stands for."


def _twice(directory: Path) -> Iterator[str]:
    """Find episodes that were played to their end more than once: only one result can count."""
    ended: Counter[tuple[str, int]] = Counter()
    for line in read_lines(directory):
        record = parse_json(line)
        ended[record["task"], record["episode"]] += record["status"] == "ok"
    found = [f"{task}:{index}" for (task, index), count in ended.items() if count > 1]
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield f"More than one record that ended well: {', '.join(found[:_SHOWN])}{more}."


def _summary(run: Run) -> Iterator[str]:
    try:
        content = read_json(run.directory / "summary.json", _MAX_SUMMARY)
    except FileNotFoundError:
        return
    except OSError as exc:
        yield f"summary.json cannot be read: {exc.strerror}."
        return
    except ValueError as exc:
        yield f"summary.json cannot be read: {exc}."
        return
    due = to_json(run.summary())
    if is_former(content):
        due = former_summary(run.records(), run.suites)
    due = json.loads(json.dumps(due))
    if content != due:
        parts = [
            key for key in due if not isinstance(content, dict) or content.get(key) != due[key]
        ]
        where = f" in {', '.join(parts)}" if parts else ""
        yield f"summary.json is not what the records give{where}."


def is_former(content: object) -> bool:
    """Whether the content of a `summary.json` was written then."""
    overall = content.get("overall") if isinstance(content, dict) else None
    return isinstance(overall, dict) and "n_distinct" not in overall


def former_summary(
    records: Iterable[EpisodeRecord], suites: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the content that `summary.json` had then."""
    unhashed = [replace(record, first_observation=None) for record in records]
    summary = summarize(unhashed, suites)
    by_task = {line.task: line for line in summary.tasks if line.task is not None}
    averages = [
        _as_then(line, [by_task[task] for task in dict.fromkeys(suites[str(line.suite)])])
        for line in summary.suites
    ]
    overall = _as_then(summary.overall, list(summary.tasks))
    content: dict[str, Any] = to_json(replace(summary, suites=tuple(averages), overall=overall))
    for line in (*content["tasks"], *content["suites"], content["overall"]):
        del line["n_distinct"]
    return content


def _as_then(line: Line, tasks: Sequence[Line]) -> Line:
    tallies = [(task.successes, task.n) for task in tasks if task.successes is not None]
    alike = tasks_like_these(tallies, bounded=False) if tallies else None
    return replace(
        line,
        ci_low_tasks=alike.low if alike else None,
        ci_high_tasks=alike.high if alike else None,
    )
