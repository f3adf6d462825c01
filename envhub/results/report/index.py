"""What the page about several runs says: a directory of them, an experiment, or those compared."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envhub.errors import RunDirectoryError
from envhub.results.experiment import is_experiment, open_experiment
from envhub.results.matrix import (
    Entry,
    Matrix,
    MatrixCell,
    entries_of,
    entries_of_runs,
    make_matrix,
)
from envhub.results.matrix_text import difference_text, explain, interval_text, row_name
from envhub.results.paste import describe_episodes, describe_policy
from envhub.results.report.drawing import whisker
from envhub.results.report.templates import render_page
from envhub.results.run import Run, open_run
from envhub.text import pluralize


def holds_runs(directory: Path) -> bool:
    """Whether a directory is not a run itself, but has runs in it."""
    if not directory.is_dir() or (directory / "run.json").exists():
        return False
    return is_experiment(directory) or any(
        (path / "run.json").exists() for path in directory.iterdir()
    )


def render_index(directory: Path, page: Path) -> str:
    """Return the page about the runs in a directory, or about those of an experiment.

    Args:
        directory: Holds the runs.
        page: Where the page will be, from which the pages of the runs are found.
    """
    unreadable: list[tuple[str, str]] = []
    if is_experiment(directory):
        experiment = open_experiment(directory)
        entries, baseline = entries_of(experiment), experiment.question.baseline
    else:
        entries, baseline = entries_of_runs(_read(directory, unreadable)), None
    matrix = make_matrix(entries, baseline=baseline)
    return render_matrix_page(matrix, entries, page, str(directory), unreadable)


def render_matrix_page(
    matrix: Matrix,
    entries: Sequence[Entry],
    page: Path,
    directory: str = "",
    unreadable: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page with a matrix and its runs.

    Args:
        matrix: The matrix.
        entries: What it was made of.
        page: Where the page will be.
        directory: Where the runs are, if all are in one.
        unreadable: Runs that cannot be read, and why.
    """
    runs = [(entry, entry.run) for entry in entries if entry.run is not None]
    heading = pluralize(len(runs), "run")
    return render_page(
        "matrix.html",
        title=f"{heading} in {directory}" if directory else heading,
        heading=heading,
        directory=directory,
        matrix=describe_matrix(matrix),
        runs=[_row(entry, run, page) for entry, run in runs],
        unreadable=unreadable,
    )


def describe_matrix(matrix: Matrix) -> dict[str, Any]:
    """Return what the template of a matrix shows."""
    return {
        "benchmarks": matrix.benchmarks,
        "rows": [
            {
                "name": row_name(row),
                "baseline": row[0] == matrix.baseline,
                "cells": [_cell(matrix.at(row, name)) for name in matrix.benchmarks],
            }
            for row in matrix.rows
        ],
        "notes": matrix.notes,
        "method": matrix.method,
    }


def _cell(cell: MatrixCell | None) -> dict[str, str] | None:
    if cell is None:
        return None
    rate = cell.line.rate if cell.line is not None else None
    deviation = cell.seed_deviation
    return {
        "rate": "-" if rate is None else f"{rate:.1%}",
        "interval": interval_text(cell),
        "deviation": "" if deviation is None else f"{100 * deviation:.1f}",
        "difference": difference_text(cell),
        "why": explain(cell),
    }


def _read(directory: Path, unreadable: list[tuple[str, str]]) -> list[Run]:
    runs: list[Run] = []
    for path in sorted(directory.iterdir()):
        if (path / "run.json").exists():
            try:
                runs.append(open_run(path).keep_records())
            except RunDirectoryError as problem:
                unreadable.append((path.name, str(problem)))
    return runs


def _row(entry: Entry, run: Run, page: Path) -> dict[str, Any]:
    info, summary = run.run_info, run.summary()
    line = summary.overall
    own = run.directory / "report.html"
    address = os.path.relpath(own, page.parent).replace(os.sep, "/") if own.is_file() else None
    return {
        "name": run.directory.name,
        "policy": describe_policy(info.policy),
        "benchmark": info.benchmark.ref,
        "seed": entry.seed,
        "line": line,
        "axis": whisker(line),
        "episodes": describe_episodes(info.plan, summary),
        "protocol": info.protocol.removeprefix("sha256:")[:12],
        "created": info.created.replace("T", " ")[:16],
        "page": address,
    }
