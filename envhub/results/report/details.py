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

_POINTS = 64
"""Points of a reward curve."""
_LEVELS = 99
"""Heights that a point can have."""
_MOST_CURVES = 250
_MOST_TRACEBACKS = 40
_MOST_TEXT = 2000
"""Characters of a traceback; its end says most."""


def videos(run: Run, records: Sequence[EpisodeRecord], page: Path) -> dict[str, dict[str, Any]]:
    """Return the videos that there are, by task and episode.

    Of each: its address from the page, and the first step that went differently, or 0.
    """
    found: dict[str, dict[str, Any]] = {}
    known = known_videos(run, records)
    for record in records:
        facts = known.get(record.number)
        if facts is not None:
            path = os.path.relpath(video_path(run, record.number), page.parent)
            shown = [path.replace(os.sep, "/"), facts.difference or 0]
            found.setdefault(record.task, {})[str(record.episode)] = shown
    return found


def curves(
    run: Run, records: Sequence[EpisodeRecord], filmed: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the rewards of filmed episodes and of failures, thinned: lowest, highest, heights."""
    found: dict[str, dict[str, Any]] = {}
    for record in _first(records, filmed, _MOST_CURVES):
        try:
            steps = read_arrays(run.directory, record.number).steps
        except RunDirectoryError:  # a damaged file: verify says so
            continue
        if steps is not None and len(steps) > 1:
            found.setdefault(record.task, {})[str(record.episode)] = thin(steps["reward"].tolist())
    return found


def thin(rewards: Sequence[float]) -> list[Any]:
    """Return the lowest and highest reward, and at most 64 points between them, from 0 to 99."""
    values = np.asarray(rewards, float)
    places = np.linspace(0, len(values) - 1, min(_POINTS, len(values))).round().astype(int)
    low, high = float(values.min()), float(values.max())
    span = high - low
    if not np.isfinite(span) or span == 0.0:
        return [low, high, [0] * len(places)]
    heights = ((values[places] - low) / span * _LEVELS).round().astype(int)
    return [float(f"{low:.4g}"), float(f"{high:.4g}"), heights.tolist()]


def tracebacks(
    records: Sequence[EpisodeRecord], filmed: dict[str, dict[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return the ends of the first tracebacks, by task and episode."""
    found: dict[str, dict[str, str]] = {}
    raised = [record for record in records if record.error and record.error.traceback]
    for record in _first(raised, filmed, _MOST_TRACEBACKS):
        assert record.error is not None
        assert record.error.traceback is not None
        text = record.error.traceback.strip()[-_MOST_TEXT:]
        found.setdefault(record.task, {})[str(record.episode)] = text
    return found


def _first(
    records: Iterable[EpisodeRecord], filmed: dict[str, dict[str, Any]], most: int
) -> list[EpisodeRecord]:
    """Return filmed episodes, then those that did not succeed, at most so many."""
    shown = [r for r in records if str(r.episode) in filmed.get(r.task, {})]
    failed = [r for r in records if kind(r) in ("failure", "error")]
    chosen = {record.number: record for record in (*shown, *failed)}
    return list(chosen.values())[:most]
