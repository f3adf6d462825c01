"""The drawings of a report: shapes of SVG as text. Pure; no foreign text enters them."""

import itertools
from collections.abc import Iterable, Sequence

from envhub.records import EpisodeRecord
from envhub.results.summary import Line

CELL = 6
"""The width of an episode in a strip, gap included."""
HEIGHT = 14
AXIS = 160
"""The width of the axis from 0 to 100 %."""
BINS = 24
"""The bars of the histogram of steps, at most."""


def kind(record: EpisodeRecord) -> str:
    """Return how an episode is drawn: success, failure, error or unknown."""
    if not record.counts:
        return "error"
    if record.success is None and record.status == "ok":
        return "unknown"
    return "success" if record.success else "failure"


def strip(records: Iterable[EpisodeRecord]) -> dict[str, str]:
    """Return a path for each kind of episode, one cell an episode, at the place of its index."""
    paths: dict[str, list[str]] = {}
    for record in records:
        paths.setdefault(kind(record), []).append(_cell(record.episode * CELL, kind(record)))
    return {name: "".join(parts) for name, parts in sorted(paths.items())}


def _cell(x: int, name: str) -> str:
    """Draw one cell: colour is not the only difference."""
    if name == "failure":  # with a notch at the top
        return f"M{x} 4h1v-4h3v4h1v10h-5z"
    if name == "error":  # a low one
        return f"M{x} 9h5v5h-5z"
    return f"M{x} 0h5v14h-5z"


def whisker(line: Line) -> dict[str, float] | None:
    """Return where the rate and its interval lie on the axis."""
    if line.rate is None or line.ci_low is None or line.ci_high is None:
        return None
    return {
        "low": round(AXIS * line.ci_low, 1),
        "high": round(AXIS * line.ci_high, 1),
        "rate": round(AXIS * line.rate, 1),
    }


def histogram(records: Sequence[EpisodeRecord], horizon: int) -> list[dict[str, int]]:
    """Return bars of steps: how many succeeded, and how many did not, from `start` to `end`."""
    played = [record for record in records if record.status == "ok"]
    if not played:
        return []
    longest = max(horizon, *(record.steps for record in played))
    count = min(BINS, longest)
    edges = [longest * i // count for i in range(count + 1)]
    bars = [
        {"start": low + 1, "end": high, "won": 0, "lost": 0}
        for low, high in itertools.pairwise(edges)
    ]
    for record in played:
        place = next(i for i, bar in enumerate(bars) if record.steps <= bar["end"])
        bars[place]["won" if record.success else "lost"] += 1
    return bars
