"""Runs of the same episodes at several latencies, held against the first. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.errors import UsageError
from envhub.results.compare import Comparison, compare
from envhub.results.conclusion import p_value, points
from envhub.results.paired import holm
from envhub.results.run import Run
from envhub.results.summary import Line
from envhub.run_info import LatencyPlanInfo
from envhub.text import align

ACROSS = "latency"


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """What a policy did at one latency."""

    run: Run
    seconds: float
    overall: Line
    held: float
    """Steps of an episode in which the robot was held still, on average."""
    compared: Comparison | None
    """With the first latency; None for that one, and where no success is known."""
    p: float | None
    """Of that comparison, adjusted for the number of latencies by Holm."""

    @property
    def label(self) -> str:
        """The latency in words."""
        return in_words(self.seconds)


def in_words(seconds: float) -> str:
    """Return a latency as people write it: `120ms`."""
    return f"{1000 * seconds:g}ms"


def compare_latencies(runs: Sequence[Run]) -> list[LatencyLine]:
    """Compare runs of the same episodes with the first of them, in pairs of episodes."""
    runs = [run.keep_records() for run in runs]
    found = [None, *(_compare(runs[0], run) for run in runs[1:])]
    known = [each.p for each in found if each is not None]
    adjusted = iter(holm(known))
    return [
        LatencyLine(
            run,
            _seconds(run.run_info.plan.latency),
            run.summary().overall,
            _mean_held(run),
            each,
            None if each is None else next(adjusted),
        )
        for run, each in zip(runs, found, strict=True)
    ]


def render(lines: Sequence[LatencyLine]) -> str:
    """Render latencies as a table."""
    head = ("latency", "rate", "95 % interval", "points", "95 % interval", "adjusted p", "held")
    rows = [head, *map(_row, lines)]
    table = align(rows, right=range(len(head)))
    return "\n".join([table[0], "-" * max(map(len, table)), *table[1:]])


def to_json(lines: Sequence[LatencyLine]) -> list[dict[str, object]]:
    """Return plain data."""
    return [
        {
            "latency_seconds": line.seconds,
            "run": str(line.run.directory),
            "n": line.overall.n,
            "rate": line.overall.rate,
            "ci_low": line.overall.ci_low,
            "ci_high": line.overall.ci_high,
            "held_per_episode": line.held,
            "compared": None if line.compared is None else line.compared.to_json(),
            "p_holm": line.p,
        }
        for line in lines
    ]


def folder_of(directory: Path, seconds: float) -> Path:
    """Return where the run of a latency is."""
    return directory / f"latency-{in_words(seconds)}"


def _compare(first: Run, other: Run) -> Comparison | None:
    try:
        return compare(first, other, across=(ACROSS,))
    except UsageError:
        if any(run.summary().overall.rate is not None for run in (first, other)):
            raise
        return None  # no success is reported, so that there is nothing to compare


def _seconds(latency: LatencyPlanInfo | None) -> float:
    return 0.0 if latency is None or latency.seconds is None else latency.seconds


def _mean_held(run: Run) -> float:
    held = [record.held or 0 for record in run.records()]
    return sum(held) / len(held) if held else 0.0


def _row(line: LatencyLine) -> tuple[str, ...]:
    overall, compared = line.overall, line.compared
    rate = "-" if overall.rate is None else f"{overall.rate:.1%}"
    interval = ""
    if overall.ci_low is not None and overall.ci_high is not None:
        interval = f"[{overall.ci_low:.1%}, {overall.ci_high:.1%}]"
    held = f"{line.held:.1f}"
    if compared is None or line.p is None:
        return (line.label, rate, interval, "", "", "", held)
    between = f"[{points(compared.ci_low)}, {points(compared.ci_high)}]"
    return (
        line.label,
        rate,
        interval,
        points(compared.difference),
        between,
        p_value(line.p),
        held,
    )
