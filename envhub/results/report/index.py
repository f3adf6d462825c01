"""What the page about a directory of runs says, as plain data for its template."""

import os
from pathlib import Path
from typing import Any

from envhub.errors import RunDirectoryError
from envhub.results.paste import describe_episodes, describe_policy
from envhub.results.report.drawing import whisker
from envhub.results.report.templates import render_page
from envhub.results.run import Run, open_run
from envhub.run_info import hash_protocol
from envhub.text import pluralize


def holds_runs(directory: Path) -> bool:
    """Whether a directory is not a run itself, but has runs in it."""
    if not directory.is_dir() or (directory / "run.json").exists():
        return False
    return any((path / "run.json").exists() for path in directory.iterdir())


def render_index(directory: Path, page: Path) -> str:
    """Return the page that lists the runs in a directory, by benchmark and protocol.

    Args:
        directory: Holds the runs.
        page: Where the page will be, from which the pages of the runs are found.
    """
    runs: list[Run] = []
    unreadable: list[tuple[str, str]] = []
    for path in sorted(directory.iterdir()):
        if (path / "run.json").exists():
            try:
                runs.append(open_run(path).keep_records())
            except RunDirectoryError as problem:
                unreadable.append((path.name, str(problem)))
    return render_page(
        "index.html",
        title=f"{pluralize(len(runs), 'run')} in {directory}",
        directory=str(directory),
        runs=runs,
        groups=_groups(runs, page),
        unreadable=unreadable,
    )


def _groups(runs: list[Run], page: Path) -> list[dict[str, Any]]:
    """Return the runs that played the same episodes together, the best first."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: -run.run_info.format):
        # By today's digest: two formats have two for the same protocol.
        key = (run.run_info.benchmark.ref, hash_protocol(run.run_info))
        groups.setdefault(key, []).append(run)
    return [
        {
            "benchmark": benchmark,
            "protocol": same[0].run_info.protocol.removeprefix("sha256:")[:12],
            "runs": sorted(
                (_row(run, page) for run in same), key=lambda row: -(row["line"].rate or 0.0)
            ),
        }
        for (benchmark, _), same in sorted(groups.items(), key=lambda group: group[0])
    ]


def _row(run: Run, page: Path) -> dict[str, Any]:
    line = run.summary().overall
    own = run.directory / "report.html"
    address = os.path.relpath(own, page.parent).replace(os.sep, "/") if own.is_file() else None
    return {
        "name": run.directory.name,
        "policy": describe_policy(run.run_info.policy),
        "line": line,
        "axis": whisker(line),
        "episodes": describe_episodes(run.run_info.plan, line),
        "created": run.run_info.created.replace("T", " ")[:16],
        "page": address,
    }
