"""Runs of the same episodes at several values of a condition, held against the first. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.errors import UsageError
from envhub.results.compare import Comparison, compare
from envhub.results.conclusion import p_value, points
from envhub.results.paired import holm
from envhub.results.run import Run
from envhub.results.summary import Line
from envhub.run_info import PlanInfo
from envhub.text import align


@dataclass(frozen=True, slots=True)
class Condition:
    """What is swept: the latency, or the strength of a perturbation."""

    name: str = "latency"
    """Of a perturbation, if it is none."""
    perturbs: bool = False

    @property
    def across(self) -> str:
        """What `--across` calls it."""
        return "perturb" if self.perturbs else "latency"

    def of(self, plan: PlanInfo) -> float:
        """Return its value in a run."""
        if self.perturbs:
            found = plan.perturbations.get(self.name)
            strength = 0.0 if found is None else found.strength
            return strength if isinstance(strength, float) else 0.0
        late = plan.latency
        return 0.0 if late is None or late.seconds is None else late.seconds

    def words(self, value: float) -> str:
        """Return a value as people write it: `120ms`, `0.05`."""
        return f"{value:.15g}" if self.perturbs else f"{1000 * value:g}ms"

    def folder(self, value: float) -> str:
        """Return the name of the directory of a run with the value."""
        return f"{self.name}-{self.words(value)}"


LATENCY = Condition()


@dataclass(frozen=True, slots=True)
class SweepLine:
    """What a policy did at one value."""

    run: Run
    condition: Condition
    value: float
    overall: Line
    held: float
    """Steps of an episode in which the robot was held still, on average."""
    compared: Comparison | None
    """With the first value; None for that one, and where no success is known."""
    p: float | None
    """Of that comparison, adjusted for the number of values by Holm."""

    @property
    def label(self) -> str:
        """The value in words."""
        return self.condition.words(self.value)


def compare_sweep(runs: Sequence[Run], condition: Condition) -> list[SweepLine]:
    """Compare runs of the same episodes with the first of them, in pairs of episodes."""
    runs = [run.keep_records() for run in runs]
    found = [None, *(_compare(runs[0], run, condition) for run in runs[1:])]
    known = [each.p for each in found if each is not None]
    adjusted = iter(holm(known))
    return [
        SweepLine(
            run,
            condition,
            condition.of(run.run_info.plan),
            run.summary().overall,
            _mean_held(run),
            each,
            None if each is None else next(adjusted),
        )
        for run, each in zip(runs, found, strict=True)
    ]


def render(lines: Sequence[SweepLine]) -> str:
    """Render the values as a table."""
    condition = lines[0].condition
    head = (condition.name, "rate", "95 % interval", "points", "95 % interval", "adjusted p")
    rows = [head, *map(_row, lines)]
    if not condition.perturbs:
        held = ["held", *(f"{line.held:.1f}" for line in lines)]
        rows = [(*row, steps) for row, steps in zip(rows, held, strict=True)]
    table = align(rows, right=range(len(rows[0])))
    return "\n".join([table[0], "-" * max(map(len, table)), *table[1:]])


def to_json(lines: Sequence[SweepLine]) -> dict[str, object]:
    """Return plain data."""
    condition = lines[0].condition
    value = "strength" if condition.perturbs else "latency_seconds"
    rows = [
        {
            value: line.value,
            "run": str(line.run.directory),
            "n": line.overall.n,
            "rate": line.overall.rate,
            "ci_low": line.overall.ci_low,
            "ci_high": line.overall.ci_high,
            **({} if condition.perturbs else {"held_per_episode": line.held}),
            "compared": None if line.compared is None else line.compared.to_json(),
            "p_holm": line.p,
        }
        for line in lines
    ]
    if condition.perturbs:
        return {"perturbation": condition.name, "strengths": rows}
    return {"latencies": rows}


def folder_of(directory: Path, condition: Condition, value: float) -> Path:
    """Return where the run of a value is."""
    return directory / condition.folder(value)


def _compare(first: Run, other: Run, condition: Condition) -> Comparison | None:
    try:
        return compare(first, other, across=(condition.across,))
    except UsageError:
        if any(run.summary().overall.rate is not None for run in (first, other)):
            raise
        return None  # no success is reported, so that there is nothing to compare


def _mean_held(run: Run) -> float:
    held = [record.held or 0 for record in run.records()]
    return sum(held) / len(held) if held else 0.0


def _row(line: SweepLine) -> tuple[str, ...]:
    overall, compared = line.overall, line.compared
    rate = "-" if overall.rate is None else f"{overall.rate:.1%}"
    interval = ""
    if overall.ci_low is not None and overall.ci_high is not None:
        interval = f"[{overall.ci_low:.1%}, {overall.ci_high:.1%}]"
    if compared is None or line.p is None:
        return (line.label, rate, interval, "", "", "")
    between = f"[{points(compared.ci_low)}, {points(compared.ci_high)}]"
    return (line.label, rate, interval, points(compared.difference), between, p_value(line.p))
