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
    flip_signs,
    holm,
    mcnemar,
    newcombe,
    permute,
    sign_flip,
    welch,
)
from envhub.results.run import Run, open_run
from envhub.results.statistics import Groups, column_means, column_sums, find_columns
from envhub.results.summary import repeat_key
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
    repeats: int = 0
    """Pairs, or episodes of either run, that repeat another of the task: those count once."""
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
    """Of McNemar's exact test; of an exact test by tasks where the runs are not paired; of a test
    of the seeds where tasks share them."""
    p_tasks: float | None
    """Of a sign-flip test, for tasks like these; None with fewer than six, unpaired, and where the
    tasks share their seeds."""
    seeds: int | None = None
    """The seeds that the tasks share, each one piece of evidence; None where they share none."""
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
    def repeats(self) -> int:
        """The pairs or episodes that repeat another, which count once."""
        return sum(task.repeats for task in self.tasks)

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
        counts |= {"repeats": self.repeats}
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
    found = compare_tasks(
        _by_task(a),
        _by_task(b),
        (a.run_info.plan.episodes, b.run_info.plan.episodes),
        (a.run_info.plan.seed_groups, b.run_info.plan.seed_groups),
        paired=paired,
    )
    if found is None:
        raise UsageError(
            f"{a.directory} and {b.directory} have no episode in common whose success is known. "
            "Evaluate both policies on the same tasks."
        )
    return found


def compare_tasks(
    first: Mapping[str, Sequence[EpisodeRecord]],
    second: Mapping[str, Sequence[EpisodeRecord]],
    planned: tuple[int, int],
    groups: tuple[Groups, Groups],
    *,
    paired: bool,
) -> Comparison | None:
    """Compare episodes B with episodes A, task by task.

    Args:
        first: Those of A, by task.
        second: Those of B.
        planned: The episodes per task that there should be, of A and of B.
        groups: The groups of tasks that share their seeds, of A and of B.
        paired: Whether to compare the same episodes.

    Returns:
        None if no episode that both have says whether it succeeded.
    """
    rows = [
        row
        for task in first
        if task in second
        and (
            row := _read_task(
                task, _by_key(first[task]), _by_key(second[task]), planned, paired=paired
            )
        )
    ]
    counted = [row for row in rows if row.shown.n_a and row.shown.n_b]
    if not counted:
        return None
    compared = {row.shown.task for row in counted}
    left_out = tuple(name for name in dict.fromkeys((*first, *second)) if name not in compared)
    found = _conclude(_adjusted(counted), left_out, groups, paired=paired)
    if not any(row.shown.dropped or row.shown.lost_a or row.shown.lost_b for row in rows):
        return found
    worst, best = (
        _conclude([_settle(row, for_b=for_b) for row in rows], left_out, groups, paired=paired)
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


def _by_task(run: Run) -> dict[str, list[EpisodeRecord]]:
    tasks: dict[str, list[EpisodeRecord]] = {task: [] for task in run.run_info.plan.tasks}
    for record in run.records():
        tasks[record.task].append(record)
    return tasks


def _by_key(records: Sequence[EpisodeRecord]) -> dict[_Key, EpisodeRecord]:
    return {(record.episode, record.seed, record.init_state): record for record in records}


@dataclass(frozen=True, slots=True)
class _Row:
    """A task, and the outcomes that its seeds have in both runs, by the episode's index."""

    shown: TaskComparison
    a: list[tuple[int, int]]
    b: list[tuple[int, int]]
    """Of the same episodes as those of A where the runs are paired."""
    missing: tuple[list[int], list[int]]
    """The indices of the episodes that were lost, of A and of B."""

    @property
    def differences(self) -> list[tuple[int, int]]:
        """Of pairs: 1 where only B succeeded, -1 where only A did, else 0."""
        return [(index, b - a) for (index, a), (_, b) in zip(self.a, self.b, strict=True)]


def _read_task(
    task: str,
    a: Mapping[_Key, EpisodeRecord],
    b: Mapping[_Key, EpisodeRecord],
    planned: tuple[int, int],
    *,
    paired: bool,
) -> _Row | None:
    """Compare one task; None if no episode of it says whether it succeeded."""
    if not any(record.success is not None for record in (*a.values(), *b.values())):
        return None
    of_a = {key: record for key, record in a.items() if record.counts}
    of_b = {key: record for key, record in b.items() if record.counts}
    if not paired:
        once_a, once_b = (_once([(each,) for each in of.values()]) for of in (of_a, of_b))
        missing = _missing(of_a, planned[0]), _missing(of_b, planned[1])
        shown = TaskComparison(
            task=task,
            n_a=len(once_a),
            n_b=len(once_b),
            successes_a=0,
            successes_b=0,
            lost_a=len(missing[0]),
            lost_b=len(missing[1]),
            repeats=len(of_a) + len(of_b) - len(once_a) - len(once_b),
            p=1.0,
        )
        first, second = ([_outcome(each) for (each,) in once] for once in (once_a, once_b))
        return _filled(_Row(shown, first, second, missing))
    common = {key: (of_a[key], of_b[key]) for key in of_a if key in of_b}
    pairs = _once(list(common.values()))
    lost = _missing(common, min(planned))
    shown = TaskComparison(
        task=task,
        n_a=len(pairs),
        n_b=len(pairs),
        successes_a=0,
        successes_b=0,
        only_a=0,
        only_b=0,
        dropped=len(lost),
        repeats=len(common) - len(pairs),
        p=1.0,
    )
    first, second = ([_outcome(pair[side]) for pair in pairs] for side in (0, 1))
    return _filled(_Row(shown, first, second, (lost, lost)))


def _once(played: list[tuple[EpisodeRecord, ...]]) -> list[tuple[EpisodeRecord, ...]]:
    """Leave out what repeats another: of pairs, if both episodes do."""
    found: dict[object, tuple[EpisodeRecord, ...]] = {}
    for place, records in enumerate(played):
        keys = tuple(map(repeat_key, records))
        found.setdefault(place if None in keys else keys, records)
    return list(found.values())


def _outcome(record: EpisodeRecord) -> tuple[int, int]:
    return record.episode, int(record.success is True)


def _missing(played: Mapping[_Key, object], planned: int) -> list[int]:
    indices = {index for index, *_ in played}
    return [index for index in range(planned) if index not in indices]


def _filled(row: _Row) -> _Row:
    """Count the outcomes."""
    shown = row.shown
    won_a, won_b = (sum(value for _, value in each) for each in (row.a, row.b))
    shown = replace(shown, n_a=len(row.a), n_b=len(row.b), successes_a=won_a, successes_b=won_b)
    if shown.only_a is not None:
        differences = [value for _, value in row.differences]
        only_a, only_b = differences.count(-1), differences.count(1)
        shown = replace(shown, only_a=only_a, only_b=only_b, p=mcnemar(only_a, only_b))
    elif row.a and row.b:
        shown = replace(shown, p=fisher((won_a, len(row.a)), (won_b, len(row.b))))
    return replace(row, shown=shown)


def _settle(row: _Row, *, for_b: bool) -> _Row:
    """Count the lost episodes of a task as won by B and lost by A, or the reverse."""
    a = [*row.a, *((index, int(not for_b)) for index in row.missing[0])]
    b = [*row.b, *((index, int(for_b)) for index in row.missing[1])]
    shown = replace(row.shown, dropped=0, lost_a=0, lost_b=0)
    return _filled(_Row(shown, a, b, ([], [])))


def _adjusted(rows: Sequence[_Row]) -> list[_Row]:
    """Adjust the p-values of the tasks in which a difference could show at all."""
    shown = [row.shown for row in rows]
    differing = [each for each in shown if each.only_a != 0 or each.only_b != 0]
    adjusted = dict(
        zip((each.task for each in differing), holm([each.p for each in differing]), strict=True)
    )
    return [
        replace(row, shown=replace(row.shown, p_holm=adjusted.get(row.shown.task))) for row in rows
    ]


@dataclass(frozen=True, slots=True)
class _Test:
    """What several tasks show together."""

    low: float
    high: float
    p: float
    lead: int
    """Positive if B has more successes than A, as the test counts them."""
    p_tasks: float | None = None
    seeds: int | None = None


def _test_pairs(rows: Sequence[_Row], groups: Groups) -> _Test:
    shown = [row.shown for row in rows]
    pairs = [Pairs(each.n_a, each.only_a or 0, each.only_b or 0) for each in shown]
    differences = {row.shown.task: row.differences for row in rows}
    columns = find_columns(differences, groups)
    low, high = difference_interval(pairs, columns=columns)
    if columns is not None:
        sums = column_sums(differences, groups)
        total = sum(sums)
        lead = (total > 0) - (total < 0)
        return _Test(low, high, flip_signs(sums), lead, seeds=columns.count)
    lead = sum(each.only_b - each.only_a for each in pairs)
    p = mcnemar(sum(each.only_a for each in pairs), sum(each.only_b for each in pairs))
    alike = sign_flip(pairs) if len(pairs) >= TASKS_FOR_A_SAMPLE else None
    return _Test(low, high, p, lead, alike)


def _test_apart(rows: Sequence[_Row], groups: tuple[Groups, Groups]) -> _Test:
    """Test runs that are not paired."""
    tallies_a = [(row.shown.successes_a, row.shown.n_a) for row in rows]
    tallies_b = [(row.shown.successes_b, row.shown.n_b) for row in rows]
    of_a, of_b = {row.shown.task: row.a for row in rows}, {row.shown.task: row.b for row in rows}
    columns = find_columns(of_a, groups[0]), find_columns(of_b, groups[1])
    low, high = newcombe(tallies_a, tallies_b, columns=columns)
    if columns == (None, None):
        test = exact_conditional(tallies_a, tallies_b)
        return _Test(low, high, test.p, test.direction)
    a, b = column_means(of_a), column_means(of_b)
    lead = sum(b) / len(b) - sum(a) / len(a)
    return _Test(low, high, permute(a, b), (lead > 0) - (lead < 0), seeds=len(a) + len(b))


def _conclude(
    rows: Sequence[_Row],
    left_out: tuple[str, ...],
    groups: tuple[Groups, Groups],
    *,
    paired: bool,
) -> Comparison:
    tasks = tuple(row.shown for row in rows)
    differences = [task.rate_b - task.rate_a for task in tasks]
    difference = _mean(differences)
    gaps = [task.dropped / (task.n_a + task.dropped) for task in tasks]
    kept = [each * (1 - gap) for each, gap in zip(differences, gaps, strict=True)]
    test = _test_pairs(rows, groups[0]) if paired else _test_apart(rows, groups)
    return Comparison(
        paired=paired,
        tasks=tasks,
        left_out=left_out,
        rate_a=_mean([task.rate_a for task in tasks]),
        rate_b=_mean([task.rate_b for task in tasks]),
        difference=difference,
        ci_low=test.low,
        ci_high=test.high,
        difference_worst=_mean(kept) - _mean(gaps),
        difference_best=_mean(kept) + _mean(gaps),
        p=test.p,
        p_tasks=test.p_tasks,
        seeds=test.seeds,
        verdict=_judge(test.p, test.lead, difference),
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
