"""Several runs, or an experiment, side by side: `envhub compare` of more than two."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from envhub.cli.output import encodable
from envhub.errors import UsageError, printable
from envhub.results.experiment import is_experiment, open_experiment
from envhub.results.matrix import (
    Entry,
    Matrix,
    SeedRows,
    default_baseline,
    entries_of,
    entries_of_runs,
    make_matrix,
)
from envhub.results.matrix_text import Format, render_matrix
from envhub.results.report.index import holds_runs
from envhub.results.run import open_run

WIDTH = 80


def is_matrix(paths: Sequence[Path]) -> bool:
    """Whether so many paths are more than two runs."""
    return len(paths) > 2 or (len(paths) == 1 and _holds_several(paths[0]))


def read_matrix(
    paths: Sequence[Path], baseline: str | None = None, seeds: SeedRows = "pool"
) -> tuple[Matrix, list[Entry]]:
    """Return the matrix of runs, of a directory with runs in it, or of an experiment.

    Args:
        paths: The directories.
        baseline: The policy that the others are compared with, by its name or a run of it; None:
            the experiment's, or that of the first run.
        seeds: Whether seeds have rows.

    Returns:
        The matrix, and the runs that it is made of.

    Raises:
        UsageError: There is no run, or no such policy.
    """
    for place in paths:
        if is_experiment(place) and len(paths) > 1:
            raise UsageError(f"{place} is an experiment: compare it alone, or name its runs.")
    if len(paths) == 1 and is_experiment(paths[0]):
        experiment = open_experiment(paths[0])
        entries = entries_of(experiment)
        chosen = baseline or default_baseline(experiment, entries)
        return make_matrix(entries, baseline=chosen, seeds=seeds), entries
    if len(paths) == 1 and holds_runs(paths[0]):
        places = sorted(each.parent for each in paths[0].glob("*/run.json"))
    else:
        places = list(paths)
    runs = [open_run(place) for place in places]
    entries = entries_of_runs(runs)
    if baseline is not None:
        named = Path(baseline).resolve()
        for run, entry in zip(runs, entries, strict=True):
            if run.directory.resolve() == named:
                baseline = entry.policy
    chosen = baseline or default_baseline(None, entries)
    return make_matrix(entries, baseline=chosen, seeds=seeds), entries


def show_matrix(matrix: Matrix, form: Format, *, as_json: bool) -> None:
    """Print a matrix."""
    if as_json:
        click.echo(json.dumps(matrix.to_json(), indent=2))
        return
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    click.echo(encodable(printable(render_matrix(matrix, form, columns))))


def _holds_several(place: Path) -> bool:
    return is_experiment(place) or holds_runs(place)
