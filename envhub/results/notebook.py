"""A run as notebooks show it: HTML without scripts, and a data frame."""

from typing import TYPE_CHECKING, Any

from envhub.errors import UsageError
from envhub.results.journal import record_to_json
from envhub.results.paste import describe_evidence, header, paste_line

if TYPE_CHECKING:
    from envhub.results.run import Run

_MOST_ROWS = 60
"""Tasks that are shown; a notebook keeps every output in its file."""
_MOST_TEXT = 300
"""Characters of a reference or policy that are shown."""
_ERROR = ("where", "type", "message", "step")


def to_html(run: "Run") -> str:
    """Return the header, the overall result and a row for each of the first tasks."""
    from envhub.results.report.drawing import whisker
    from envhub.results.report.templates import render_part

    summary = run.summary()
    named = [(f"{line.suite}/{line.task}", line) for line in summary.tasks[:_MOST_ROWS]]
    rows = [("overall", summary.overall), *named]
    return render_part(
        "notebook.html",
        title=_short(header(run.run_info, summary)),
        overall=summary.overall,
        rows=[{"name": _short(n), "line": line, "axis": whisker(line)} for n, line in rows],
        more=max(0, len(summary.tasks) - _MOST_ROWS),
        evidence=describe_evidence(run.run_info, summary),
        line=_short(paste_line(run.run_info, summary)),
    )


def to_pandas(run: "Run") -> Any:
    """Return one row per recorded episode, in the order of the plan.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as exc:
        raise UsageError("to_pandas needs pandas: pip install pandas") from exc
    rows: list[dict[str, Any]] = []
    for record in run.records():
        content = record_to_json(record)
        error = content.pop("error") or {}
        rows.append({**content, **{f"error_{name}": error.get(name) for name in _ERROR}})
    frame = pandas.DataFrame(rows)
    for name in ("init_state", "success_step", "error_step"):
        if name in frame:
            frame[name] = frame[name].astype("Int64")
    if "success" in frame:
        frame["success"] = frame["success"].astype("boolean")
    return frame


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
