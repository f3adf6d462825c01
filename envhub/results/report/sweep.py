"""What the page about several values of a condition says, as plain data for its template."""

from collections.abc import Sequence
from typing import Any

from envhub.results.conclusion import p_value, points
from envhub.results.paste import describe_policy
from envhub.results.report.drawing import whisker
from envhub.results.report.templates import render_page
from envhub.results.sweep import Condition, SweepLine

_WIDTH, _HEIGHT = 640, 240


def explain(condition: Condition) -> str:
    """Say what the differences are."""
    values = "strength" if condition.perturbs else "latency"
    several = "strengths" if condition.perturbs else "latencies"
    return (
        f"Differences are those of pairs of episodes to the first {values}, with 95 % intervals; p "
        f"is McNemar's exact test, adjusted for the number of {several} (Holm)."
    )


def render_sweep(lines: Sequence[SweepLine]) -> str:
    """Return the page about a policy at several values of a condition."""
    info, condition = lines[0].run.run_info, lines[0].condition
    return render_page(
        "sweep.html",
        title=f"{describe_policy(info.policy)} against {condition.name}",
        condition=condition.name,
        played=_played(lines),
        held=not condition.perturbs,
        benchmark=info.benchmark.ref,
        policy=describe_policy(info.policy),
        how=explain(condition),
        width=_WIDTH,
        height=_HEIGHT,
        first=lines[0].label,
        sentence="; ".join(f"{line.label}: {_percent(line.overall.rate)}" for line in lines),
        drawn=_points(lines),
        rows=[_row(line) for line in lines],
    )


def _played(lines: Sequence[SweepLine]) -> str:
    """Say how the episodes differ from one value to the next."""
    if lines[0].condition.perturbs:
        used = [line.run.run_info.plan.perturbations for line in lines]
        name = lines[0].condition.name
        package = next((found[name].package for found in used if name in found), "")
        return (
            f"played again with the perturbation {name} of {package}" if package else "played again"
        )
    late = [line.run.run_info.plan.latency for line in lines]
    mode = next((latency.mode for latency in late if latency is not None), "wait")
    return f"played again with a world that goes on while the policy thinks (mode={mode})"


def _points(lines: Sequence[SweepLine]) -> list[dict[str, Any]]:
    """Where the rates and their intervals are drawn."""
    most = max(line.value for line in lines) or 1.0
    drawn = []
    for line in lines:
        overall = line.overall
        if overall.rate is None:
            continue
        known = overall.ci_low is not None and overall.ci_high is not None
        drawn.append(
            {
                "x": round(_WIDTH * line.value / most, 1),
                "y": _height(overall.rate),
                "low": _height(overall.ci_low or 0.0) if known else None,
                "high": _height(overall.ci_high or 0.0) if known else None,
                "label": line.label,
            }
        )
    return drawn


def _height(rate: float) -> float:
    return round(_HEIGHT * (1 - rate), 1)


def _row(line: SweepLine) -> dict[str, Any]:
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
