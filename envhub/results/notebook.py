"""A run as notebooks show it: HTML without scripts, and a data frame."""

from html import escape
from typing import TYPE_CHECKING, Any

from envhub.errors import UsageError
from envhub.results.journal import record_to_json
from envhub.results.paste import header, paste_line
from envhub.results.table import HEAD, row

if TYPE_CHECKING:
    from envhub.results.run import Run

_MOST_ROWS = 60
"""Tasks that are shown; a notebook keeps every output in its file."""
_MOST_TEXT = 300
"""Characters of a reference or policy that are shown."""
_ERROR = ("where", "type", "message", "step")


def to_html(run: "Run") -> str:
    """Return the header, the overall result and a row for each of the first tasks."""
    summary = run.summary()
    named = [(f"{line.suite}/{line.task}", line) for line in summary.tasks[:_MOST_ROWS]]
    rows = [row(name, line) for name, line in (("overall", summary.overall), *named)]
    shown = "".join(_tag("tr", *(_tag("td", cell) for cell in map(_text, each))) for each in rows)
    head = _tag("tr", *(_tag("th", _text(title)) for title in HEAD))
    table = _tag("table", head, shown)
    more = len(summary.tasks) - _MOST_ROWS
    rest = _tag("p", f"and {more} more tasks") if more > 0 else ""
    line = _tag("p", _tag("code", _text(paste_line(run.info, summary))))
    return _tag("div", _tag("p", _text(header(run.info, summary))), table, rest, line)


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


def _text(text: str) -> str:
    return escape(text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}...")


def _tag(name: str, *content: str) -> str:
    return f"<{name}>{''.join(content)}</{name}>"
