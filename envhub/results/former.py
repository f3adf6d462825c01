"""Summaries as they were written before repeats and shared seeds were counted. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envhub.records import EpisodeRecord
from envhub.results.statistics import tasks_like_these
from envhub.results.summary import Line, summarize, to_json


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
