"""Writing reports: of a run, of two runs compared, and of a directory of runs."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from envhub.errors import RunDirectoryError
from envhub.files import write_whole
from envhub.results.report.comparison import render_comparison
from envhub.results.report.content import content
from envhub.results.report.index import holds_runs, render_index
from envhub.results.report.sweep import render_sweep
from envhub.results.report.templates import render_page
from envhub.results.run import Run, open_run
from envhub.results.sweep import SweepLine

_NAME = "report.html"


def report(
    run: Run | str | Path,
    out: str | Path | None = None,
    *,
    other: Run | str | Path | None = None,
    paired: bool = True,
    across: Collection[str] = (),
) -> Path:
    """Write a page about a run, and return its file.

    Args:
        run: The run, which may be under way, or its directory; or a directory with runs in it,
            whose page lists them.
        out: The file; None: `report.html` in the directory, `comparison.html` with `other`.
        other: Another run: then the page compares it, the candidate, with `run`, the reference.
        paired: With `other`: whether both played the same episodes.
        across: With `other`: conditions in which both may differ, such as `latency`.

    Raises:
        RunDirectoryError: The directory has no run, or the file cannot be written.
        UsageError: The runs did not play the same episodes.
    """
    if other is not None:
        second = _open(other)
        path = second.directory / "comparison.html" if out is None else Path(out)
        text = render_comparison(_open(run), second, path, paired=paired, across=across)
        return write_page(path, text)
    if not isinstance(run, Run) and holds_runs(Path(run)):
        path = Path(run) / _NAME if out is None else Path(out)
        return write_page(path, render_index(Path(run), path))
    opened = _open(run)
    path = opened.directory / _NAME if out is None else Path(out)
    return write_page(path, render(opened, path))


def report_sweep(lines: Sequence[SweepLine]) -> Path:
    """Write the page about several values of a condition beside their runs; return its file."""
    return write_page(lines[0].run.directory.parent / _NAME, render_sweep(lines))


def render(run: Run, path: Path | None = None) -> str:
    """Return the page about a run.

    Args:
        run: The run.
        path: Where the page will be; None: in the run's directory.
    """
    context = content(run, path)
    # In a page, "<" could end the script; in JSON it can be written otherwise.
    data = json.dumps(context.pop("data"), separators=(",", ":")).replace("<", "\\u003c")
    return render_page("page.html", script="page.js", data=data, **context)


def _open(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def write_page(path: Path, text: str) -> Path:
    """Write a page, whole or not at all, and return its file.

    Raises:
        RunDirectoryError: It cannot be written.
    """
    try:
        # Paths that are not UTF-8 are texts that have surrogates.
        write_whole(path, text.encode(errors="backslashreplace"), durable=False)
    except OSError as exc:
        raise RunDirectoryError(
            f"The report cannot be written to {path}: {exc.strerror}. Name another file with --out."
        ) from exc
    return path
