"""What a report shows of single episodes: videos, reward curves, tracebacks, within a budget."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import RunDirectoryError
from envhub.records import EpisodeRecord
from envhub.results.arrays import read_arrays
from envhub.results.report.drawing import kind
from envhub.results.run import Run
from envhub.results.videos import known_videos, video_path
from envhub.wire.values import Array

_POINTS = 64
"""Points of a curve."""
_LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
"""Heights that a point can have, as letters."""
_MOST_ACTIONS = 8
"""Numbers of an action that have a curve."""
_MOST_CURVES = 70_000
"""Bytes of all curves."""
_MOST_TRACEBACKS = 40
_MOST_TEXT = 2000
"""Characters of a traceback; its end says most."""


def videos(run: Run, records: Sequence[EpisodeRecord], page: Path) -> dict[str, dict[str, Any]]:
    """Return the videos that there are, by task and episode.

    Of each: its address from the page, the first step that went differently, or 0, and the steps
    from one frame to the next.
    """
    found: dict[str, dict[str, Any]] = {}
    known = known_videos(run, records)
    for record in records:
        facts = known.get(record.number)
        if facts is not None:
            path = os.path.relpath(video_path(run, record.number), page.parent)
            shown = [path.replace(os.sep, "/"), facts.difference or 0, facts.every]
            found.setdefault(record.task, {})[str(record.episode)] = shown
    return found


def curves(
    run: Run, records: Sequence[EpisodeRecord], filmed: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return curves of filmed episodes and of failures, as many as there is room for.

    Of each those of the rewards, and of the numbers of the actions on a scale of their own.
    """
    found: dict[str, dict[str, Any]] = {}
    room = _MOST_CURVES
    for record in _first(records, filmed):
        try:
            stored = read_arrays(run.directory, record.number)
        except RunDirectoryError:  # a damaged file: verify says so
            continue
        if stored.steps is None or len(stored.steps) < 2:
            continue
        drawn = [thin(stored.steps["reward"][None]), thin(_numbers(stored.actions))]
        room -= sum(len(line) + 12 for _, _, lines in drawn for line in lines)
        if room < 0:
            break
        found.setdefault(record.task, {})[str(record.episode)] = drawn
    return found


def _numbers(actions: Array | None) -> Array:
    """Return the first numbers of the actions, one row each; none if there are no actions."""
    if actions is None or len(actions) < 2:
        return np.zeros((0, 2))
    return actions.reshape(len(actions), -1)[:, :_MOST_ACTIONS].T


def thin(rows: Array) -> tuple[float, float, list[str]]:
    """Return the lowest and highest number, and of each row at most 64 points between them."""
    values = np.nan_to_num(np.asarray(rows, float))
    places = np.linspace(0, values.shape[1] - 1, min(_POINTS, values.shape[1])).round().astype(int)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    # Halves, so that the span of the largest numbers is finite.
    span = high / 2 - low / 2
    scale = (values[:, places] / 2 - low / 2) / span if span > 0 else values[:, places] * 0
    heights = (scale * (len(_LEVELS) - 1)).round().astype(int)
    texts = ["".join(_LEVELS[height] for height in row) for row in heights.tolist()]
    return float(f"{low:.4g}"), float(f"{high:.4g}"), texts


def tracebacks(
    records: Sequence[EpisodeRecord], filmed: dict[str, dict[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return the ends of the first tracebacks, by task and episode."""
    found: dict[str, dict[str, str]] = {}
    raised = [record for record in records if record.error and record.error.traceback]
    for record in _first(raised, filmed)[:_MOST_TRACEBACKS]:
        assert record.error is not None
        assert record.error.traceback is not None
        text = record.error.traceback.strip()[-_MOST_TEXT:]
        found.setdefault(record.task, {})[str(record.episode)] = text
    return found


def _first(
    records: Iterable[EpisodeRecord], filmed: dict[str, dict[str, Any]]
) -> list[EpisodeRecord]:
    """Return filmed episodes, then those that did not succeed."""
    shown = [r for r in records if str(r.episode) in filmed.get(r.task, {})]
    failed = [r for r in records if kind(r) in ("failure", "error")]
    chosen = {record.number: record for record in (*shown, *failed)}
    return list(chosen.values())
