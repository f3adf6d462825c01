"""From what `run.json` holds to its types, by the format that it names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import convert

from envhub.errors import RunDirectoryError
from envhub.results import format1
from envhub.run_info import RunInfo

_MOST = 300
"""Characters of a problem that are shown."""


def parse_run(content: Mapping[str, Any], directory: Path) -> RunInfo:
    """Return the content of a `run.json`; fields that are not known are ignored.

    Args:
        content: From `read_run`.
        directory: Of the run.

    Raises:
        RunDirectoryError: It lacks a field, or has something else there; says where.
    """
    try:
        if content.get("format") == 1:
            return format1.upgrade(content)
        return convert(content, RunInfo)
    except ValueError as exc:  # msgspec's own, or a name that UTF-8 cannot encode
        raise RunDirectoryError(
            f"{directory}/run.json is damaged, or of another version of EnvHub: "
            f"{describe(exc)}. Restore the file, or start a new run in another directory."
        ) from exc


def describe(error: ValueError) -> str:
    """Say in one line what is wrong, and in which field; a value can have any length."""
    problem, _, place = str(error).partition(" - at ")
    field = place.replace("`", "").replace("$.", "").removeprefix("$")
    text = f"{field}: {problem}" if field else problem
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
