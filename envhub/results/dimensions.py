"""What each change of a suite costs: its rate beside that of the suite it was made from. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envhub.records import EpisodeRecord
from envhub.results.compare import Comparison, compare_tasks
from envhub.results.conclusion import points
from envhub.results.run import Run
from envhub.results.summary import Line
from envhub.results.table import WIDTH
from envhub.run_info import PlanInfo
from envhub.text import align

HOW = (
    "Points: the difference to the suite as it was, over the same tasks. (=): exact pairs of "
    "episodes."
)


@dataclass(frozen=True, slots=True)
class Changed:
    """A suite that was made from another one."""

    base: str
    change: str
    """What was changed, in words."""
    line: Line
    """Its own results."""
    compared: Comparison | None
    """With the tasks that its own were made from; None where these were not played, and where no
    success is known."""

    @property
    def points(self) -> str:
        """The difference, in points; empty if it is not known."""
        return "" if self.compared is None else points(self.compared.difference)

    @property
    def between(self) -> str:
        """The interval of the difference; empty if it is not known."""
        found = self.compared
        if found is None:
            return ""
        exact = " (=)" if found.paired else ""
        return f"[{points(found.ci_low)}, {points(found.ci_high)}]{exact}"


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The suites of a run, by what was changed in them."""

    bases: Mapping[str, Line | None]
    """The suites as they were; None: not played."""
    changed: tuple[Changed, ...]

    @property
    def missing(self) -> list[str]:
        """The suites without which there is no difference."""
        return [base for base, line in self.bases.items() if line is None]


def compare_dimensions(run: Run) -> Dimensions:
    """Hold each changed suite of a run against the one that it was made from."""
    run = run.keep_records()
    plan = run.run_info.plan
    lines = {str(line.suite): line for line in run.summary().suites} if plan.dimensions else {}
    records: dict[str, list[EpisodeRecord]] = {task: [] for task in plan.tasks}
    for record in run.records() if plan.dimensions else ():
        records[record.task].append(record)
    return Dimensions(
        {base: lines.get(base) for base, _ in plan.dimensions.values()},
        tuple(
            Changed(base, change, lines[suite], _compare(plan, records, suite, base))
            for suite, (base, change) in plan.dimensions.items()
        ),
    )


def render(found: Dimensions, width: int = WIDTH) -> str:
    """Render the table; empty if no suite was made from another.

    Args:
        found: What to show.
        width: The columns that it may take; in fewer the intervals of the rates are left out.
    """
    if not found.changed:
        return ""
    head = ("by what was changed", "success", "95 % interval", "points", "95 % interval")
    rows: list[tuple[str, ...]] = [head]
    for base, line in found.bases.items():
        shown = (f"{base} (not played)", "-", "-") if line is None else (base, *_rate(line))
        rows.append((*shown, "", ""))
        rows += [
            (f"  {each.change}", *_rate(each.line), each.points, each.between)
            for each in found.changed
            if each.base == base
        ]
    table = align(rows, right=(1, 2, 3, 4))
    if max(map(len, table)) > width:
        table = align([(*row[:2], *row[3:]) for row in rows], right=(1, 2, 3))
    said = [HOW]
    if found.missing:
        said.append(f"Points are missing; play also: --suite {','.join(found.missing)}")
    return "\n".join([table[0], "─" * max(map(len, table)), *table[1:], *said])


def to_json(found: Dimensions) -> list[dict[str, object]]:
    """Return plain data: one entry per changed suite."""
    return [
        {
            "suite": each.line.suite,
            "base": each.base,
            "change": each.change,
            "n": each.line.n,
            "rate": each.line.rate,
            "ci_low": each.line.ci_low,
            "ci_high": each.line.ci_high,
            "compared": None if each.compared is None else each.compared.to_json(),
        }
        for each in found.changed
    ]


def _compare(
    plan: PlanInfo, records: Mapping[str, Sequence[EpisodeRecord]], suite: str, base: str
) -> Comparison | None:
    """Compare the tasks of a suite with those that they were made from, under their names."""
    originals = {
        original: task
        for task in plan.suites[suite]
        if (original := plan.tasks[task].seeds_of or "") in plan.suites.get(base, ())
    }
    first = {original: records[original] for original in originals}
    second = {original: records[task] for original, task in originals.items()}
    counts, groups = (plan.episodes, plan.episodes), (plan.seed_groups, plan.seed_groups)
    paired = all(_began_alike(first[task], second[task]) for task in first)
    return compare_tasks(first, second, counts, groups, paired=paired)


def _began_alike(first: Sequence[EpisodeRecord], second: Sequence[EpisodeRecord]) -> bool:
    """Whether all episodes that both have began with the same observation."""
    began = {(record.episode, record.seed): record for record in first}
    pairs = [
        (found, record)
        for record in second
        if (found := began.get((record.episode, record.seed))) is not None
    ]
    return bool(pairs) and all(
        None is not one.first_observation == other.first_observation
        # Without a leaf it stands for the number of the initial state, not for what that is.
        and () not in (one.first_leaves, other.first_leaves)
        for one, other in pairs
    )


def _rate(line: Line) -> tuple[str, str]:
    if line.rate is None or line.ci_low is None or line.ci_high is None:
        return "-", "-"
    return f"{line.rate:.1%}", f"{line.ci_low:.1%} - {line.ci_high:.1%}"
