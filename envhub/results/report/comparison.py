"""What the page about two runs says, as plain data for its template."""

import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from envhub.records import EpisodeRecord
from envhub.results.comparable import describe_across
from envhub.results.compare import Comparison, TaskComparison, compare
from envhub.results.conclusion import conclude, p_value, points
from envhub.results.paste import describe_policy
from envhub.results.report.content import describe_strip
from envhub.results.report.drawing import strip, strip_size
from envhub.results.report.templates import render_page
from envhub.results.run import Run
from envhub.text import pluralize


def render_comparison(
    a: Run, b: Run, page: Path, *, paired: bool = True, across: Collection[str] = ()
) -> str:
    """Return the page that compares a candidate B with a reference A.

    Args:
        a: The reference.
        b: The candidate.
        page: Where the page will be, from which the pages of both runs are found.
        paired: Whether both played the same episodes.
        across: The conditions in which they may differ.

    Raises:
        UsageError: They did not.
    """
    a, b = a.keep_records(), b.keep_records()
    found = compare(a, b, paired=paired, across=across)
    named = [word for name in across for word in ("--across", name)]
    policies = [describe_policy(run.run_info.policy) for run in (a, b)]
    episodes = max(run.run_info.plan.episodes for run in (a, b))
    words = ["envhub", "compare", str(a.directory), str(b.directory), *named]
    over = f"mean over {pluralize(len(found.tasks), 'task')}"
    if len(found.tasks) == 1:
        over = "of episodes succeed"
    rates = found.rate_a, found.rate_b
    return render_page(
        "comparison.html",
        script="comparison.js",
        title=f"{policies[1]} compared with {policies[0]}",
        benchmark=a.run_info.benchmark.ref,
        policy_a=policies[0],
        policy_b=policies[1],
        sides=[
            {
                "name": name,
                "policy": policy,
                "rate": rate,
                "words": over,
                "run": str(run.directory),
                "page": _page_of(run, page),
            }
            for name, policy, rate, run in zip("AB", policies, rates, (a, b), strict=True)
        ],
        interval_of_difference=f"{points(found.ci_low)} to {points(found.ci_high)}",
        sentences=[
            *describe_across(a.run_info, b.run_info, across),
            *conclude(found, None),
        ],
        tasks=_tasks(found, a.records(), b.records()),
        size=strip_size(episodes),
        difference=points(found.difference),
        p=p_value(found.p),
        commands=[
            ("Compare them again", shlex.join([*words, *([] if paired else ["--unpaired"])]))
        ],
    )


def _tasks(
    found: Comparison, a: Sequence[EpisodeRecord], b: Sequence[EpisodeRecord]
) -> list[dict[str, Any]]:
    return [_task(task, _of(a, task.task), _of(b, task.task)) for task in found.tasks]


def _task(
    task: TaskComparison, a: Sequence[EpisodeRecord], b: Sequence[EpisodeRecord]
) -> dict[str, Any]:
    return {
        "name": task.task,
        "rate_a": task.rate_a,
        "rate_b": task.rate_b,
        "a": _strip(task.task, a),
        "b": _strip(task.task, b),
        "gap": task.rate_b - task.rate_a,
        "difference": points(task.rate_b - task.rate_a),
        "only_a": "" if task.only_a is None else task.only_a,
        "only_b": "" if task.only_b is None else task.only_b,
        "p": p_value(task.p),
        "p_exact": task.p,
        "p_holm": "" if task.p_holm is None else p_value(task.p_holm),
    }


def _strip(name: str, records: Sequence[EpisodeRecord]) -> dict[str, Any]:
    return {"strip": strip(records), "label": describe_strip(records), "line": {"task": name}}


def _of(records: Sequence[EpisodeRecord], task: str) -> list[EpisodeRecord]:
    return [record for record in records if record.task == task]


def _page_of(run: Run, page: Path) -> str | None:
    """The address of a run's own page, if it has one."""
    own = run.directory / "report.html"
    return os.path.relpath(own, page.parent).replace(os.sep, "/") if own.is_file() else None
