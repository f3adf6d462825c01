"""Two runs held against each other, task by task. Nothing is run; the records are read."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from envhub.errors import UsageError
from envhub.records import EpisodeRecord
from envhub.results.comparable import check_comparable
from envhub.results.paired import (
    Pairs,
    difference_interval,
    exact_conditional,
    fisher,
    holm,
    mcnemar,
    newcombe,
    sign_flip,
    welch,
)
from envhub.results.run import Run, open_run
from envhub.text import pluralize

ALPHA = 0.05
"""A difference counts as shown below this p-value."""
TASKS_FOR_A_SAMPLE = 6
"""With fewer tasks a sign-flip test cannot go below 5 %."""

Verdict = Literal["better", "worse", "undecided"]
_Key = tuple[int, int, int | None]
"""What makes an episode of a task the same: its index, seed and initial state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """What two runs did in one task."""

    task: str
    n_a: int
    """The episodes of A that count; as many as of B where they are paired."""
    n_b: int
    successes_a: int
    successes_b: int
    only_a: int | None = None
    """The pairs in which only A succeeded; None where the runs are not paired."""
    only_b: int | None = None
    dropped: int = 0
    """Common episodes that were not played, or failed by an error of the env, in either run."""
    lost_a: int = 0
    """Episodes of A that were not played, or failed so; only where the runs are not paired."""
    lost_b: int = 0
    p: float
    p_holm: float | None = None
    """Adjusted for the number of tasks in which the runs differ; None where they do not."""

    @property
    def rate_a(self) -> float:
        """The share of A's episodes that succeeded."""
        return self.successes_a / self.n_a

    @property
    def rate_b(self) -> float:
        """The share of B's episodes that succeeded."""
        return self.successes_b / self.n_b


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How much more often B succeeds than A. Rates are fractions, means over the tasks."""

    paired: bool
    tasks: tuple[TaskComparison, ...]
    left_out: tuple[str, ...]
    """Tasks that only one run has, or that have no episode to compare."""
    rate_a: float
    rate_b: float
    difference: float
    ci_low: float
    """The 95 % interval of the difference, for these tasks."""
    ci_high: float
    difference_worst: float
    """The difference if in every dropped pair only A had succeeded."""
    difference_best: float
    p: float
    """Of McNemar's exact test; of an exact test by tasks where the runs are not paired."""
    p_tasks: float | None
    """Of a sign-flip test, for tasks like these; None with fewer than six, and unpaired."""
    verdict: Verdict
    """Whether B is shown to be better or worse: a p-value below 5 %."""
    worst: "Comparison | None" = None
    """The comparison if every lost episode had gone against B; None if none was lost."""
    best: "Comparison | None" = None
    """The comparison if every lost episode had gone for B."""

    @property
    def only_a(self) -> int:
        """The pairs in which only A succeeded."""
        return sum(task.only_a or 0 for task in self.tasks)

    @property
    def only_b(self) -> int:
        """The pairs in which only B succeeded."""
        return sum(task.only_b or 0 for task in self.tasks)

    @property
    def dropped(self) -> int:
        """The pairs that do not count."""
        return sum(task.dropped for task in self.tasks)

    @property
    def interval_disagrees(self) -> bool:
        """Whether the interval leaves out 0 where the test decides nothing, or the reverse."""
        return (self.verdict == "undecided") != (self.ci_low <= 0 <= self.ci_high)

    def not_worse_by(self, margin: float) -> bool:
        """Whether it is shown that B is not worse by more than that, a fraction.

        Lost episodes count against B.
        """
        return (self.worst or self).ci_low >= -margin

    def is_worse(self) -> bool:
        """Whether B is shown to be worse, or would be with the lost episodes against it."""
        return (self.worst or self).verdict == "worse"

    def is_better(self) -> bool:
        """Whether B is shown to be better, also with the lost episodes against it."""
        return (self.worst or self).verdict == "better"

    def is_different(self) -> bool:
        """Whether a difference is shown, or could be with the lost episodes."""
        cases = [self, *(case for case in (self.worst, self.best) if case is not None)]
        return any(case.verdict != "undecided" for case in cases)

    def to_json(self) -> dict[str, object]:
        """Return plain data: the content of `envhub compare --json`."""
        totals = {"only_a": self.only_a, "only_b": self.only_b} if self.paired else {}
        counts = {"n_a": sum(task.n_a for task in self.tasks)}
        counts |= {"n_b": sum(task.n_b for task in self.tasks), "dropped": self.dropped}
        tasks = [
            asdict(task) | {"rate_a": task.rate_a, "rate_b": task.rate_b} for task in self.tasks
        ]
        cases = {"worst": _case(self.worst), "best": _case(self.best)}
        return (
            asdict(replace(self, worst=None, best=None))
            | totals
            | counts
            | cases
            | {"tasks": tasks}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """How much higher the rates of B's runs are than those of A's, such as of training seeds."""

    runs_a: tuple[str, ...]
    runs_b: tuple[str, ...]
    rates_a: tuple[float, ...]
    rates_b: tuple[float, ...]
    difference: float
    """Of the means of the runs' rates."""
    ci_low: float
    ci_high: float
    degrees: float | None
    """Of freedom; None where the rates of both groups do not vary, so that nothing is known."""
    p: float
    """Of Welch's test."""
    verdict: Verdict


def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    paired: bool = True,
    across: Collection[str] = (),
) -> Comparison:
    """Compare a candidate B with a reference A.

    Args:
        a: The reference: a run, or its directory.
        b: The candidate, likewise.
        paired: Whether to compare the same episodes; they must have been played alike. Otherwise
            the runs are taken as independent experiments on tasks of the same names.
        across: Conditions in which paired runs may differ, such as `latency`.

    Raises:
        UsageError: The runs did not play the same episodes, or have none in common.
        RunDirectoryError: A directory has no run.
    """
    a, b = (run if isinstance(run, Run) else open_run(run) for run in (a, b))
    if paired:
        check_comparable(a.run_info, b.run_info, across)
    first, second = _by_task(a), _by_task(b)
    planned_a, planned_b = a.run_info.plan.episodes, b.run_info.plan.episodes
    rows = [
        row
        for task in first
        if task in second
        and (row := _compare_task(task, first[task], second[task], (planned_a, planned_b), paired))
    ]
    counted = [row for row in rows if row.n_a and row.n_b]
    if not counted:
        raise UsageError(
            f"{a.directory} and {b.directory} have no episode in common whose success is known. "
            "Evaluate both policies on the same tasks."
        )
    compared = {row.task for row in counted}
    left_out = tuple(name for name in dict.fromkeys((*first, *second)) if name not in compared)
    found = _conclude(_adjusted(counted), left_out, paired=paired)
    if not any(row.dropped or row.lost_a or row.lost_b for row in rows):
        return found
    worst, best = (
        _conclude(tuple(_settle(row, for_b=for_b) for row in rows), left_out, paired=paired)
        for for_b in (False, True)
    )
    return replace(found, worst=worst, best=best)


def compare_groups(a: Sequence[Run], b: Sequence[Run]) -> GroupComparison:
    """Compare two groups of runs, such as policies trained with several seeds each.

    The variance between the runs of a group decides, so that the result speaks of the way of
    training and not of these checkpoints alone.

    Raises:
        UsageError: A group has fewer than two runs, a run is named twice, is incomplete or has no
            rate, or the runs did not play the same tasks under the same conditions.
    """
    if min(len(a), len(b)) < 2:
        raise UsageError("A group needs at least two runs: envhub compare A1 A2 -- B1 B2.")
    places = Counter(run.directory.resolve() for run in (*a, *b))
    for place, count in places.items():
        if count > 1:  # it would count as independent evidence, with no variance between them
            raise UsageError(f"{place} is named {count} times: each run counts once.")
    for run in (*a, *b):
        check_comparable(a[0].run_info, run.run_info)
        if set(run.run_info.plan.tasks) != set(a[0].run_info.plan.tasks):
            raise UsageError(f"{run.directory} has other tasks than {a[0].directory}.")
    rates_a, rates_b = tuple(map(_settled_rate, a)), tuple(map(_settled_rate, b))
    test = welch(rates_a, rates_b)
    sign = (test.difference > 0) - (test.difference < 0)
    return GroupComparison(
        runs_a=tuple(str(run.directory) for run in a),
        runs_b=tuple(str(run.directory) for run in b),
        rates_a=rates_a,
        rates_b=rates_b,
        difference=test.difference,
        ci_low=test.low,
        ci_high=test.high,
        degrees=test.degrees,
        p=test.p,
        verdict=_judge(test.p, sign, test.difference),
    )


def _settled_rate(run: Run) -> float:
    """The overall rate of a run whose every episode counts."""
    summary = run.summary()
    lost = run.planned - sum(line.n for line in summary.tasks)
    if lost:
        raise UsageError(
            f"{run.directory} has {pluralize(lost, 'episode')} without a result, so its rate is "
            f"not settled. Finish it: envhub eval --resume {run.directory}"
        )
    if summary.overall.rate is None:
        raise UsageError(f"{run.directory} reports no success, so it has no rate.")
    return summary.overall.rate


def _by_task(run: Run) -> dict[str, dict[_Key, EpisodeRecord]]:
    tasks: dict[str, dict[_Key, EpisodeRecord]] = {task: {} for task in run.run_info.plan.tasks}
    for record in run.records():
        tasks[record.task][record.episode, record.seed, record.init_state] = record
    return tasks


def _compare_task(
    task: str,
    a: Mapping[_Key, EpisodeRecord],
    b: Mapping[_Key, EpisodeRecord],
    planned: tuple[int, int],
    paired: bool,  # noqa: FBT001 - private
) -> TaskComparison | None:
    """Compare one task; None if no episode of it says whether it succeeded."""
    if not any(record.success is not None for record in (*a.values(), *b.values())):
        return None
    won_a = {key: record.success is True for key, record in a.items() if record.counts}
    won_b = {key: record.success is True for key, record in b.items() if record.counts}
    if not paired:
        lost_a, lost_b = planned[0] - len(won_a), planned[1] - len(won_b)
        return _row(task, won_a, won_b, lost_a=lost_a, lost_b=lost_b)
    common = won_a.keys() & won_b.keys()
    won_a = {key: won_a[key] for key in common}
    won_b = {key: won_b[key] for key in common}
    only_a = sum(won_a[key] and not won_b[key] for key in common)
    only_b = sum(won_b[key] and not won_a[key] for key in common)
    row = _row(task, won_a, won_b, dropped=min(planned) - len(common))
    return replace(row, only_a=only_a, only_b=only_b, p=mcnemar(only_a, only_b))


def _row(
    task: str, won_a: Mapping[_Key, bool], won_b: Mapping[_Key, bool], **lost: int
) -> TaskComparison:
    a, b = (sum(won_a.values()), len(won_a)), (sum(won_b.values()), len(won_b))
    return TaskComparison(
        task=task,
        successes_a=a[0],
        n_a=a[1],
        successes_b=b[0],
        n_b=b[1],
        p=fisher(a, b) if a[1] and b[1] else 1.0,
        **lost,
    )


def _settle(row: TaskComparison, *, for_b: bool) -> TaskComparison:
    """Count the lost episodes of a task as won by B and lost by A, or the reverse."""
    lost_a, lost_b = row.dropped + row.lost_a, row.dropped + row.lost_b
    settled = replace(
        row,
        n_a=row.n_a + lost_a,
        n_b=row.n_b + lost_b,
        successes_a=row.successes_a + (0 if for_b else lost_a),
        successes_b=row.successes_b + (lost_b if for_b else 0),
        dropped=0,
        lost_a=0,
        lost_b=0,
    )
    if row.only_a is None or row.only_b is None:
        return settled
    only_a = row.only_a + (0 if for_b else row.dropped)
    return replace(settled, only_a=only_a, only_b=row.only_b + (row.dropped if for_b else 0))


def _adjusted(rows: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    """Adjust the p-values of the tasks in which a difference could show at all."""
    differing = [row for row in rows if row.only_a != 0 or row.only_b != 0]
    adjusted = dict(
        zip((row.task for row in differing), holm([row.p for row in differing]), strict=True)
    )
    return tuple(replace(row, p_holm=adjusted.get(row.task)) for row in rows)


def _conclude(
    tasks: tuple[TaskComparison, ...], left_out: tuple[str, ...], *, paired: bool
) -> Comparison:
    differences = [task.rate_b - task.rate_a for task in tasks]
    difference = _mean(differences)
    gaps = [task.dropped / (task.n_a + task.dropped) for task in tasks]
    kept = [each * (1 - gap) for each, gap in zip(differences, gaps, strict=True)]
    p_tasks: float | None = None
    if paired:
        pairs = [Pairs(task.n_a, task.only_a or 0, task.only_b or 0) for task in tasks]
        low, high = difference_interval(pairs)
        lead = sum(each.only_b - each.only_a for each in pairs)
        p = mcnemar(sum(each.only_a for each in pairs), sum(each.only_b for each in pairs))
        p_tasks = sign_flip(pairs) if len(pairs) >= TASKS_FOR_A_SAMPLE else None
    else:
        a = [(task.successes_a, task.n_a) for task in tasks]
        b = [(task.successes_b, task.n_b) for task in tasks]
        low, high = newcombe(a, b)
        test = exact_conditional(a, b)
        p, lead = test.p, test.direction
    return Comparison(
        paired=paired,
        tasks=tasks,
        left_out=left_out,
        rate_a=_mean([task.rate_a for task in tasks]),
        rate_b=_mean([task.rate_b for task in tasks]),
        difference=difference,
        ci_low=low,
        ci_high=high,
        difference_worst=_mean(kept) - _mean(gaps),
        difference_best=_mean(kept) + _mean(gaps),
        p=p,
        p_tasks=p_tasks,
        verdict=_judge(p, lead, difference),
    )


def _case(found: Comparison | None) -> dict[str, object] | None:
    """The worst or the best case, as `--json` tells it."""
    if found is None:
        return None
    names = ("rate_a", "rate_b", "difference", "ci_low", "ci_high", "p", "verdict")
    return {name: getattr(found, name) for name in names}


def _judge(p: float, lead: int, difference: float) -> Verdict:
    """Decide by the test, which counts episodes; the mean of the tasks must not contradict it."""
    if p >= ALPHA or lead * difference <= 0:
        return "undecided"
    return "better" if difference > 0 else "worse"


def _mean(values: Sequence[float]) -> float:
    return sum(sorted(values)) / len(values)
