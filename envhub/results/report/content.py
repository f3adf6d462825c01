"""What a report says, as plain data for its template. Pure."""

import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from envhub.conventions import describe
from envhub.records import EpisodeError, EpisodeRecord
from envhub.results.attestations import read_attestations
from envhub.results.baselines import read_baselines
from envhub.results.dimensions import HOW, compare_dimensions
from envhub.results.paste import (
    describe_evidence,
    describe_outlier,
    describe_overridden,
    describe_policy,
    header,
    paste_line,
)
from envhub.results.repeat import repeat_command
from envhub.results.report import details
from envhub.results.report.drawing import histogram, kind, strip, strip_size, whisker
from envhub.results.run import Run
from envhub.results.summary import Line
from envhub.run_info import PlanInfo, PolicyInfo, RunInfo
from envhub.text import pluralize

_MOST_ERRORS = 200
"""Errors whose text is kept in the page; of the others the type."""
_MOST_TEXT = 2000
"""Characters of an error's text."""
_MOST_OUTLIERS = 3
"""Numbers of a state that are named."""
_LISTED = 60
"""Episodes of a group of failures that are listed."""


def content(run: Run, page: Path | None = None) -> dict[str, Any]:
    """Return everything that the template shows.

    Args:
        run: The run.
        page: Where the page will be, from which its videos are found; None: in the run's directory.
    """
    run = run.keep_records()
    records, summary, info = run.records(), run.summary(), run.run_info
    by_task: dict[str, list[EpisodeRecord]] = {task: [] for task in info.plan.tasks}
    for record in records:
        by_task[record.task].append(record)
    overall = summary.overall
    horizons = [task.horizon for task in info.plan.tasks.values()]
    filmed = details.videos(run, records, page or run.directory / "report.html")
    return {
        "title": header(info, summary),
        "benchmark": info.benchmark.ref,
        "policy": describe_policy(info.policy),
        "overall": overall,
        "axis_place": whisker(overall),
        "line": paste_line(info, summary),
        "suites": [_suite(line, run, by_task, summary.tasks) for line in summary.suites],
        "changes": list_changes(run),
        "how_changed": HOW,
        "size": strip_size(info.plan.episodes),
        "bars": histogram(records, max(horizons, default=1)),
        "horizons": (min(horizons, default=0), max(horizons, default=0)),
        "notes": [
            *describe_evidence(info, summary),
            *notes(records, info.plan),
            *latency_notes(info.policy),
            *outlier_notes(info.policy),
        ],
        "groups": groups(records),
        "protocol": protocol(run),
        "commands": commands(run),
        "videos": list_videos(records, filmed),
        "baselines": [
            {"baseline": baseline, "axis": whisker(baseline.overall)}
            for baseline in read_baselines(run)
        ],
        "data": {
            **data(info.plan, by_task),
            "run": shlex.quote(str(run.directory)),
            "videos": filmed,
            "curves": details.curves(run, records, filmed),
            "tracebacks": details.tracebacks(records, filmed),
        },
    }


def list_changes(run: Run) -> list[dict[str, Any]]:
    """Return suites that others were made from, each with those and what was changed."""
    found = compare_dimensions(run)
    return [
        {
            "name": base,
            "line": line,
            "axis": None if line is None else whisker(line),
            "changed": [
                {"found": each, "axis": whisker(each.line)}
                for each in found.changed
                if each.base == base
            ],
        }
        for base, line in found.bases.items()
    ]


def list_videos(
    records: Sequence[EpisodeRecord], filmed: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the videos as a list, for those without scripts."""
    return [
        {"task": r.task, "episode": r.episode, "kind": kind(r), "file": found[0]}
        for r in records
        if (found := filmed.get(r.task, {}).get(str(r.episode))) is not None
    ]


def _suite(
    line: Line,
    run: Run,
    by_task: Mapping[str, list[EpisodeRecord]],
    tasks: Sequence[Line],
) -> dict[str, Any]:
    names, planned = run.suites[str(line.suite)], run.run_info.plan.tasks
    lines = {task.task: task for task in tasks}
    return {
        "line": line,
        "axis": whisker(line),
        "tasks": [_task(lines[name], by_task[name], planned[name].description) for name in names],
    }


def _task(line: Line, records: Sequence[EpisodeRecord], instruction: str) -> dict[str, Any]:
    steps = [record.success_step for record in records if record.success_step is not None]
    return {
        "line": line,
        "instruction": "" if _says(str(line.task), instruction) else instruction,
        "axis": whisker(line),
        "strip": strip(records),
        "label": describe_strip(records),
        "steps": f"{median(steps):g}" if steps else "",
        "failures": sum(kind(record) != "success" for record in records),
    }


def _says(name: str, instruction: str) -> bool:
    """Whether a name has the words of an instruction itself, as LIBERO's have."""
    words = [" ".join(re.findall(r"[a-z0-9]+", text.lower())) for text in (instruction, name)]
    return words[0] in words[1]


def describe_strip(records: Sequence[EpisodeRecord]) -> str:
    """Describe a strip of episodes in a sentence, for those who cannot see it."""
    counted = Counter(map(kind, records))
    if counted["unknown"] and not counted["success"]:
        return f"{pluralize(len(records), 'episode')}; success is not reported."
    text = f"{counted['success']} of {len(records)} succeeded"
    failed = [str(record.episode) for record in records if kind(record) == "failure"]
    if failed:
        more = f" and {len(failed) - 12} more" if len(failed) > 12 else ""
        text += f"; failed: {', '.join(failed[:12])}{more}"
    errors = [str(record.episode) for record in records if kind(record) == "error"]
    if errors:
        text += f"; {len(errors)} ended by an error of the env"
    return f"{text}."


def notes(records: Sequence[EpisodeRecord], plan: PlanInfo) -> list[str]:
    """Say what the failures have in common, where it helps."""
    failures = [record for record in records if kind(record) == "failure"]
    late = [
        record
        for record in failures
        if record.end == "truncated" and record.steps >= plan.tasks[record.task].horizon
    ]
    said: list[str] = []
    if late:
        said.append(f"{len(late)} of {len(failures)} failures ended at the horizon.")
    outside = sum(record.out_of_bounds > 0 for record in records)
    if outside:
        said.append(f"{pluralize(outside, 'episode')} had actions outside the action space.")
    again = sum(record.attempts > 1 for record in records)
    if again:
        was = "was" if again == 1 else "were"
        said.append(f"{pluralize(again, 'episode')} {was} played again after an error of the env.")
    return said


def latency_notes(policy: PolicyInfo) -> list[str]:
    """Say how long the policy took to act, if that was measured."""
    latency = policy.latency
    if latency is None:
        return []
    half, most = (f"{1000 * seconds:.3g} ms" for seconds in (latency.p50, latency.p95))
    return [f"The policy took {half} to act (median of {latency.calls:,} calls; p95 {most})."]


def outlier_notes(policy: PolicyInfo) -> list[str]:
    """Say which states the policy met that its checkpoint never saw."""
    found = policy.outliers
    said = [describe_outlier(outlier)[:_MOST_TEXT] for outlier in found[:_MOST_OUTLIERS]]
    more = len(found) - _MOST_OUTLIERS
    counted = "1 more state value is" if more == 1 else f"{more} more state values are"
    return [*said, f"{counted} out of range."] if more > 0 else said


def groups(records: Sequence[EpisodeRecord]) -> list[dict[str, Any]]:
    """Return failures and errors that ended alike, the most frequent first."""
    found: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        if kind(record) in ("failure", "error"):
            name = f"{record.status}: {record.error.type}" if record.error else record.end
            found.setdefault(name, []).append(record)
    return [
        {
            "name": name,
            "count": len(each),
            "example": each[0].error.message[:_MOST_TEXT] if each[0].error else None,
            "tasks": [
                (task, [record.episode for record in listed])
                for task, listed in itertools.groupby(each[:_LISTED], key=lambda r: r.task)
            ],
            "more": max(0, len(each) - _LISTED),
        }
        for name, each in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def protocol(run: Run) -> list[tuple[str, str]]:
    """Return what the episodes depend on, by name."""
    info = run.run_info
    benchmark, plan, runtime = info.benchmark, info.plan, info.runtime
    horizons = sorted({task.horizon for task in plan.tasks.values()})
    rules = sorted({task.success for task in plan.tasks.values()})
    packages = sorted(runtime.packages.items())
    return [
        ("Protocol", info.protocol),
        ("Begun", info.created),
        ("EnvHub", info.envhub),
        ("Files", "\n".join(f"{name} {digest}" for name, digest in benchmark.files.items())),
        ("Arguments of the env", json.dumps(benchmark.env_args)),
        ("Episodes per task", str(plan.episodes)),
        ("Seed", f"{plan.seed}, {plan.seeding}"),
        ("Horizon", ", ".join(map(str, horizons))),
        ("Success counts", ", ".join(rules)),
        *_conventions(info),
        ("Sandbox", info.protection.sandbox),
        *(("Attestation", str(each)) for each in read_attestations(run.directory)),
        ("Python", runtime.python),
        ("Packages", ", ".join(f"{name} {version}" for name, version in packages)),
    ]


def _conventions(info: RunInfo) -> list[tuple[str, str]]:
    """Return the conventions of both sides, as far as there are any."""
    found = info.conventions
    rows = [
        ("Conventions of the benchmark", describe(found.benchmark)),
        ("Conventions of the policy", describe(found.policy)),
        ("Conventions that were ignored", describe_overridden(info) or ""),
    ]
    return [(name, text[:_MOST_TEXT]) for name, text in rows if text]


def commands(run: Run) -> list[tuple[str, str]]:
    """Return the commands that verify and show the run, and the one that repeats it if one can."""
    directory = shlex.quote(str(run.directory))
    shown = [
        ("Verify it", f"envhub verify {directory}"),
        ("Show it again", f"envhub show {directory}"),
    ]
    again = repeat_command(run.run_info)
    return shown if again is None else [("Run it again", again), *shown]


def data(plan: PlanInfo, by_task: Mapping[str, Sequence[EpisodeRecord]]) -> dict[str, Any]:
    """Return the episodes for the page's script, as short as it can be.

    Of each task: its name, instruction and number of initial states; then by episode a letter for
    its kind (a space: not played). Of those that were played, in order: steps, returns and seeds (a
    number if all are the same; of seeds the first if the others follow it). By episode the step
    of its first success where that is not the last one, and the number of its error.
    """
    errors: dict[str, int] = {}
    tasks = []
    for name, recorded in by_task.items():
        records = sorted(recorded, key=lambda record: record.episode)
        kinds = [" "] * (records[-1].episode + 1 if records else 0)
        won: dict[int, int] = {}
        failed: dict[int, int] = {}
        for record in records:
            kinds[record.episode] = kind(record)[0]
            if record.success_step not in (None, record.steps):
                won[record.episode] = record.success_step or 0
            if record.error is not None:
                text = _describe_error(record.error)
                if text in errors or len(errors) < _MOST_ERRORS:
                    failed[record.episode] = errors.setdefault(text, len(errors))
        task = plan.tasks[name]
        played = [
            _same([record.steps for record in records]),
            _same([_short(record.return_) for record in records]),
            _first_seed(records),
        ]
        tasks.append(
            [name, task.description, task.init_states, "".join(kinds), *played, won, failed]
        )
    return {"errors": list(errors), "tasks": tasks}


def _describe_error(error: EpisodeError) -> str:
    text = f"{error.type} in the {error.where} at step {error.step}: {error.message}"
    return text[:_MOST_TEXT]


def _same(values: list[Any]) -> Any:
    """Return the value that all have; the values if they differ."""
    return values[0] if len(values) > 1 and len(set(values)) == 1 else values


def _first_seed(records: Sequence[EpisodeRecord]) -> int | list[int]:
    """Return the seed of the first episode, if each has the next one; else all of them."""
    firsts = {record.seed - record.episode for record in records}
    return firsts.pop() if len(firsts) == 1 else [record.seed for record in records]


def _short(value: float) -> float | str:
    """A number with six digits; JSON has no infinities, and scripts no NaN."""
    text = f"{value:.6g}"
    return float(text) if value - value == 0 else text
