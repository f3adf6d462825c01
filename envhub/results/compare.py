"""Two runs held against each other, task by task. Nothing is run; the records are read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from envhub.errors import UsageError
from envhub.records import EpisodeRecord
from envhub.results.comparable import check_comparable
from envhub.results.paired import (
    Pairs,
    difference_interval,
    fisher,
    holm,
    mcnemar,
    newcombe,
    sign_flip,
)
from envhub.results.run import Run, open_run
from envhub.results.statistics import Tally

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
    """Of McNemar's exact test; of Fisher's where the runs are not paired."""
    p_tasks: float | None
    """Of a sign-flip test, for tasks like these; None with fewer than six, and unpaired."""
    verdict: Verdict
    """Whether B is shown to be better or worse: a p-value below 5 %."""

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

    def not_worse_by(self, margin: float) -> bool:
        """Whether it is shown that B is not worse by more than that, a fraction."""
        return self.ci_low >= -margin

    def to_json(self) -> dict[str, object]:
        """Return plain data: the content of `envhub compare --json`."""
        totals = {"only_a": self.only_a, "only_b": self.only_b} if self.paired else {}
        counts = {"n_a": sum(task.n_a for task in self.tasks)}
        counts |= {"n_b": sum(task.n_b for task in self.tasks), "dropped": self.dropped}
        tasks = [
            asdict(task) | {"rate_a": task.rate_a, "rate_b": task.rate_b} for task in self.tasks
        ]
        return asdict(self) | totals | counts | {"tasks": tasks}


def compare(a: Run | str | Path, b: Run | str | Path, *, paired: bool = True) -> Comparison:
    """Compare a candidate B with a reference A.

    Args:
        a: The reference: a run, or its directory.
        b: The candidate, likewise.
        paired: Whether to compare the same episodes; they must have been played alike. Otherwise
            the runs are taken as independent experiments on tasks of the same names.

    Raises:
        UsageError: The runs did not play the same episodes, or have none in common.
        RunDirectoryError: A directory has no run.
    """
    a, b = (run if isinstance(run, Run) else open_run(run) for run in (a, b))
    if paired:
        check_comparable(a.run_info, b.run_info)
    planned = min(a.run_info.plan.episodes, b.run_info.plan.episodes)
    first, second = _by_task(a), _by_task(b)
    rows = [
        row
        for task in first
        if task in second
        and (row := _compare_task(task, first[task], second[task], planned if paired else None))
    ]
    if not rows:
        raise UsageError(
            f"{a.directory} and {b.directory} have no episode in common whose success is known. "
            "Evaluate both policies on the same tasks."
        )
    compared = {row.task for row in rows}
    left_out = tuple(name for name in dict.fromkeys((*first, *second)) if name not in compared)
    return _conclude(_adjusted(rows), left_out, paired=paired)


def _by_task(run: Run) -> dict[str, dict[_Key, EpisodeRecord]]:
    tasks: dict[str, dict[_Key, EpisodeRecord]] = {task: {} for task in run.run_info.plan.tasks}
    for record in run.records():
        tasks[record.task][record.episode, record.seed, record.init_state] = record
    return tasks


def _compare_task(
    task: str,
    a: Mapping[_Key, EpisodeRecord],
    b: Mapping[_Key, EpisodeRecord],
    planned: int | None,
) -> TaskComparison | None:
    """Compare one task; None if nothing can be said of it.

    Args:
        task: Its name.
        a: The records of the reference.
        b: The records of the candidate.
        planned: The episodes that both runs planned; None: they are not paired.
    """
    if not any(record.success is not None for record in (*a.values(), *b.values())):
        return None
    won_a = {key: record.success is True for key, record in a.items() if record.counts}
    won_b = {key: record.success is True for key, record in b.items() if record.counts}
    if planned is not None:
        common = won_a.keys() & won_b.keys()
        won_a = {key: won_a[key] for key in common}
        won_b = {key: won_b[key] for key in common}
    if not won_a or not won_b:
        return None
    a_tally, b_tally = (sum(won_a.values()), len(won_a)), (sum(won_b.values()), len(won_b))
    row = TaskComparison(
        task=task,
        successes_a=a_tally[0],
        n_a=a_tally[1],
        successes_b=b_tally[0],
        n_b=b_tally[1],
        p=fisher(a_tally, b_tally),
    )
    if planned is None:
        return row
    only_a = sum(won_a[key] and not won_b[key] for key in won_a)
    only_b = sum(won_b[key] and not won_a[key] for key in won_a)
    dropped = planned - len(won_a)
    return replace(row, only_a=only_a, only_b=only_b, dropped=dropped, p=mcnemar(only_a, only_b))


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
        (wins_a, n_a), (wins_b, n_b) = _pooled(a), _pooled(b)
        lead = wins_b * n_a - wins_a * n_b
        p = fisher((wins_a, n_a), (wins_b, n_b))
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


def _pooled(tallies: Sequence[Tally]) -> Tally:
    return sum(successes for successes, _ in tallies), sum(n for _, n in tallies)


def _judge(p: float, lead: int, difference: float) -> Verdict:
    """Decide by the test, which counts episodes; the mean of the tasks must not contradict it."""
    if p >= ALPHA or lead * difference <= 0:
        return "undecided"
    return "better" if difference > 0 else "worse"


def _mean(values: Sequence[float]) -> float:
    return sum(sorted(values)) / len(values)
