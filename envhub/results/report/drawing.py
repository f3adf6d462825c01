"""The drawings of a report: shapes of SVG as text. Pure; no foreign text enters them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from envhub.records import EpisodeRecord
from envhub.results.summary import Line

CELL = 6
"""The width of an episode in a strip, gap included."""
PER_LINE = 50
"""The episodes in a line of a strip, so that it fits a phone."""
HEIGHT = 14
LINE = 17
"""The height of a line of a strip, gap included."""
AXIS = 160
"""The width of the axis from 0 to 100 %."""
BINS = 24
"""The bars of the histogram of steps, at most."""
_MIDDLE = {"failure": 9, "error": 12}
"""Where the middle of a cell is; the style says how high each kind is: colour is not all."""


def kind(record: EpisodeRecord) -> str:
    """Return how an episode is drawn: success, failure, error or unknown."""
    if not record.counts:
        return "error"
    if record.success is None and record.status == "ok":
        return "unknown"
    return "success" if record.success else "failure"


def strip(records: Iterable[EpisodeRecord]) -> dict[str, str]:
    """Return a path for each kind of episode, one cell an episode, at the place of its index.

    Neighbours of a kind are one line, which the style dashes.
    """
    places: dict[str, list[int]] = {}
    for record in records:
        places.setdefault(kind(record), []).append(record.episode)
    return {name: "".join(_lines(found, name)) for name, found in sorted(places.items())}


def _lines(places: list[int], name: str) -> Iterator[str]:
    rows: list[tuple[int, int]] = []
    for place in sorted(places):
        if rows and place == rows[-1][1] + 1 and place % PER_LINE:
            rows[-1] = (rows[-1][0], place)
        else:
            rows.append((place, place))
    for first, last in rows:
        y, x = divmod(first, PER_LINE)
        middle = y * LINE + _MIDDLE.get(name, HEIGHT // 2)
        yield f"M{x * CELL} {middle}h{(last - first + 1) * CELL - 1}"


def strip_size(episodes: int) -> tuple[int, int]:
    """Return the width and the height of a strip of so many episodes."""
    lines = max(1, -(-episodes // PER_LINE))
    return CELL * min(episodes, PER_LINE), lines * LINE - (LINE - HEIGHT)


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
