"""Writing a run's report: `RUN/report.html`, or another file."""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path

from envhub.errors import RunDirectoryError
from envhub.files import write_whole
from envhub.results.report.content import content
from envhub.results.report.drawing import AXIS, CELL, HEIGHT
from envhub.results.run import Run, open_run


def report(run: Run | str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a run, and return its file.

    Args:
        run: The run, which may be under way, or its directory.
        out: The file; None: `report.html` in the run's directory.

    Raises:
        RunDirectoryError: The directory has no run, or the file cannot be written.
    """
    run = run if isinstance(run, Run) else open_run(run)
    path = run.directory / "report.html" if out is None else Path(out)
    try:
        write_whole(path, render(run).encode(), durable=False)
    except OSError as exc:
        raise RunDirectoryError(
            f"The report cannot be written to {path}: {exc.strerror}. Name another file with --out."
        ) from exc
    return path


def render(run: Run) -> str:
    """Return the page. It needs no network; its own script and style are the only ones allowed."""
    from jinja2 import Environment, StrictUndefined

    place = files("envhub.results.report")
    style, script, page = (
        place.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js", "page.html")
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["percent"] = lambda value: "-" if value is None else f"{value:.1%}"
    context = content(run)
    # In a page, "<" could end the script; in JSON it can be written otherwise.
    data = json.dumps(context.pop("data"), separators=(",", ":")).replace("<", "\\u003c")
    return environment.from_string(page).render(
        context,
        data=data,
        style=style,
        script=script,
        policy_of_page=_policy(style, script),
        cell=CELL,
        height=HEIGHT,
        axis_width=AXIS,
    )


def _policy(style: str, script: str) -> str:
    """The page's content security policy: nothing but its own style, script and videos."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "media-src 'self' file:; base-uri 'none'; form-action 'none'"
    )
