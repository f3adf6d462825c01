"""What the page about several latencies says, as plain data for its template."""

from collections.abc import Sequence
from typing import Any

from envhub.results.conclusion import p_value, points
from envhub.results.latencies import LatencyLine
from envhub.results.paste import describe_policy
from envhub.results.report.drawing import whisker
from envhub.results.report.templates import render_page

_WIDTH, _HEIGHT = 640, 240

HOW = (
    "Differences are those of pairs of episodes to the first latency, with 95 % intervals; p is "
    "McNemar's exact test, adjusted for the number of latencies (Holm)."
)


def render_latencies(lines: Sequence[LatencyLine]) -> str:
    """Return the page about a policy at several latencies."""
    info = lines[0].run.run_info
    late = [line.run.run_info.plan.latency for line in lines]
    mode = next((latency.mode for latency in late if latency is not None), "wait")
    return render_page(
        "latencies.html",
        title=f"{describe_policy(info.policy)} against latency",
        benchmark=info.benchmark.ref,
        policy=describe_policy(info.policy),
        mode=f"mode={mode}",
        how=HOW,
        width=_WIDTH,
        height=_HEIGHT,
        first=lines[0].label,
        sentence="; ".join(f"{line.label}: {_percent(line.overall.rate)}" for line in lines),
        drawn=_points(lines),
        rows=[_row(line) for line in lines],
    )


def _points(lines: Sequence[LatencyLine]) -> list[dict[str, Any]]:
    """Where the rates and their intervals are drawn."""
    most = max(line.seconds for line in lines) or 1.0
    drawn = []
    for line in lines:
        overall = line.overall
        if overall.rate is None:
            continue
        known = overall.ci_low is not None and overall.ci_high is not None
        drawn.append(
            {
                "x": round(_WIDTH * line.seconds / most, 1),
                "y": _height(overall.rate),
                "low": _height(overall.ci_low or 0.0) if known else None,
                "high": _height(overall.ci_high or 0.0) if known else None,
                "label": line.label,
            }
        )
    return drawn


def _height(rate: float) -> float:
    return round(_HEIGHT * (1 - rate), 1)


def _row(line: LatencyLine) -> dict[str, Any]:
    found = line.compared
    return {
        "label": line.label,
        "line": line.overall,
        "axis": whisker(line.overall),
        "points": "" if found is None else points(found.difference),
        "between": "" if found is None else f"[{points(found.ci_low)}, {points(found.ci_high)}]",
        "p": "" if line.p is None else p_value(line.p),
        "held": f"{line.held:.1f}",
        "run": line.run.directory.name,
    }


def _percent(rate: float | None) -> str:
    return "success is not reported" if rate is None else f"{rate:.1%}"
