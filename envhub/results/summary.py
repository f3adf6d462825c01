"""The summary of a run: rates with intervals, by task, by suite and overall. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from statistics import mean

from envhub.records import EpisodeRecord
from envhub.results.statistics import (
    Counted,
    Groups,
    Sample,
    find_columns,
    stratified,
    tasks_like_these,
    wilson,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The results of a task, of a suite or of all tasks. Rates are fractions.

    For a task the rate is successes over episodes, with Wilson's interval. For a suite and overall
    it is the mean over the tasks that have a rate, with a stratified interval; every task has the
    same weight, however many of its episodes count.
    """

    suite: str | None = None
    """None for the overall line. A task in several suites has its line in the first."""
    task: str | None = None
    """None for a suite and overall."""
    n: int
    """The episodes that count: all but those that failed in the env or its worker."""
    n_distinct: int
    """Those of them that repeat no other of their task; intervals count these."""
    n_tasks: int
    """The tasks with at least one episode that counts."""
    successes: int | None = None
    """None, as are the rate and its interval, if no task reports success or no episode counts."""
    rate: float | None = None
    ci_low: float | None = None
    """The 95 % interval for these tasks, played again with other episodes."""
    ci_high: float | None = None
    n_effective: float | None = None
    """Episodes of a single pool that would tell as much; for a task, the distinct ones."""
    ci_low_tasks: float | None = None
    """The 95 % interval for tasks like these; None for a task, and for fewer than five."""
    ci_high_tasks: float | None = None
    mean_return: float | None = None
    """Over episodes with status ok; None without any, or if it is not a finite number."""
    mean_steps: float | None = None
    """Over episodes with status ok."""
    errors: int
    """The episodes that do not count."""
    policy_errors: int
    """The episodes in which the policy raised: they count, as failures."""
    rate_worst: float | None = None
    """The rate if all episodes that do not count had failed."""
    rate_best: float | None = None
    """The rate if they had all succeeded. Tasks with only errors are part of both rates."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a run."""

    tasks: tuple[Line, ...]
    """Each task once, in the order of the suites."""
    suites: tuple[Line, ...]
    overall: Line
    """Over all tasks, each once."""

    @property
    def ended(self) -> int:
        """The episodes that have a record, of all tasks."""
        return sum(line.n + line.errors for line in self.tasks)

    def __str__(self) -> str:
        from envhub.results.table import render

        return render(self)


def summarize(
    records: Iterable[EpisodeRecord],
    suites: Mapping[str, Sequence[str]],
    groups: Groups | None = None,
) -> Summary:
    """Summarize a run.

    Whether success is reported is a fact about each task: it is if any of its episodes with status
    ok reports one, and its other ok episodes are then failures. A task without an ok episode is
    assumed to report success if another task does, or if no episode of the run is ok. So a policy
    that fails in every episode has a rate of 0.

    Args:
        records: One per episode, in any order, recorded under any of their suites.
        suites: The names of the tasks of each evaluated suite.
        groups: The groups of tasks that share their seeds; None: no tasks do.

    Raises:
        ValueError: A record's task is in none of the suites.
    """
    found = _read_tasks(records, suites)
    return _sum_up(found, suites, groups or {})


def settle(
    records: Iterable[EpisodeRecord],
    suites: Mapping[str, Sequence[str]],
    episodes: int,
    *,
    succeeded: bool,
    groups: Groups | None = None,
) -> Summary:
    """Summarize as if every planned episode without a result had failed, or succeeded.

    Args:
        records: Those of the episodes that have one.
        suites: The names of the tasks of each evaluated suite.
        episodes: The planned episodes per task.
        succeeded: Whether they had succeeded.
        groups: The groups of tasks that share their seeds; None: no tasks do.
    """
    found = {
        task: _settle_task(of_task, episodes, succeeded=succeeded)
        for task, of_task in _read_tasks(records, suites).items()
    }
    return _sum_up(found, suites, groups or {})


def read_outcomes(
    records: Iterable[EpisodeRecord], suites: Mapping[str, Sequence[str]]
) -> "dict[str, TaskOutcomes]":
    """Return what intervals are made of, of each task that has a rate.

    Args:
        records: One per episode, in any order.
        suites: The names of the tasks of each evaluated suite.
    """
    found = _read_tasks(records, suites)
    return {task: each for task, each in found.items() if each.line.rate is not None}


def sample(found: "Mapping[str, TaskOutcomes]", groups: Groups) -> Sample:
    """Return these tasks' episodes as a sample.

    Args:
        found: Of tasks that have a rate.
        groups: The groups of tasks that share their seeds.
    """
    columns = find_columns({task: each.distinct for task, each in found.items()}, groups)
    return Sample([each.tally for each in found.values()], columns)


@dataclass(frozen=True, slots=True)
class TaskOutcomes:
    """The line of a task, and what intervals are made of."""

    line: Line
    distinct: list[tuple[int, int]] = field(default_factory=list)
    """The index of each episode that repeats no other, and 1 if it succeeded; none without a
    rate."""

    @property
    def tally(self) -> Counted:
        """The rate of all episodes, as that of the distinct ones."""
        return _as_distinct(self.line), self.line.n_distinct


def _read_tasks(
    records: Iterable[EpisodeRecord], suites: Mapping[str, Sequence[str]]
) -> dict[str, TaskOutcomes]:
    by_task = _group_by_task(records, suites)
    reported = {task: _reports(each) for task, each in by_task.items()}
    otherwise = any(reported.values()) or all(known is None for known in reported.values())
    found: dict[str, TaskOutcomes] = {}
    for suite, tasks in suites.items():
        for task in tasks:
            if task not in found:
                known = reported[task]
                reports = otherwise if known is None else known
                found[task] = _summarize_task(suite, task, by_task[task], reports=reports)
    return found


def _sum_up(
    found: Mapping[str, TaskOutcomes], suites: Mapping[str, Sequence[str]], groups: Groups
) -> Summary:
    return Summary(
        tasks=tuple(each.line for each in found.values()),
        suites=tuple(
            _average(suite, {task: found[task] for task in tasks}, groups)
            for suite, tasks in suites.items()
        ),
        overall=_average(None, found, groups),
    )


def _settle_task(found: TaskOutcomes, episodes: int, *, succeeded: bool) -> TaskOutcomes:
    line = found.line
    unknown = line.n + line.errors > 0 and line.rate_worst is None  # it reports no success
    lost = episodes - line.n
    if unknown or not lost:
        return found
    successes = (line.successes or 0) + (lost if succeeded else 0)
    seen = {index for index, _ in found.distinct}
    free = (index for index in range(episodes + len(seen)) if index not in seen)
    distinct = [*found.distinct, *((next(free), int(succeeded)) for _ in range(lost))]
    line = replace(line, n=episodes, n_distinct=len(distinct), n_tasks=1, errors=0)
    return TaskOutcomes(_rate_task(line, successes), distinct)


def to_json(summary: Summary) -> dict[str, object]:
    """Return the content of `summary.json`: plain data without NaN or infinities."""
    return {
        "tasks": [asdict(line) for line in summary.tasks],
        "suites": [asdict(line) for line in summary.suites],
        "overall": asdict(summary.overall),
    }


def _group_by_task(
    records: Iterable[EpisodeRecord], suites: Mapping[str, Sequence[str]]
) -> dict[str, list[EpisodeRecord]]:
    by_task: dict[str, list[EpisodeRecord]] = {
        task: [] for tasks in suites.values() for task in tasks
    }
    for record in records:
        if record.task not in by_task:
            raise ValueError(f"A record's task {record.task!r} is in none of the suites.")
        by_task[record.task].append(record)
    return by_task


def _reports(records: list[EpisodeRecord]) -> bool | None:
    """Whether a task's episodes report success; None if none was played to its end."""
    reported = [record.success is not None for record in records if record.status == "ok"]
    return any(reported) if reported else None


def _summarize_task(
    suite: str, task: str, records: list[EpisodeRecord], *, reports: bool
) -> TaskOutcomes:
    ok = [record for record in records if record.status == "ok"]
    distinct = find_distinct(records)
    n = sum(record.counts for record in records)
    line = Line(
        suite=suite,
        task=task,
        n=n,
        n_distinct=len(distinct),
        n_tasks=1 if n else 0,
        mean_return=_mean([record.return_ for record in ok]),
        mean_steps=_mean([record.steps for record in ok]),
        errors=len(records) - n,
        policy_errors=sum(record.failed_by_policy for record in records),
    )
    if not (records and reports):
        return TaskOutcomes(line)
    rated = _rate_task(line, successes=sum(record.success is True for record in ok))
    return TaskOutcomes(
        rated, [(record.episode, int(record.success is True)) for record in distinct]
    )


def find_distinct(records: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return the episodes of a task that count and repeat no other before them.

    An episode repeats another if it began with the same observation and went the same way. Of
    records without a hash of the first observation that is not known, so they are all kept.
    """
    found: dict[object, EpisodeRecord] = {}
    for place, record in enumerate(records):
        if record.counts:
            found.setdefault(repeat_key(record) or place, record)
    return list(found.values())


def repeat_key(record: EpisodeRecord) -> tuple[str, str] | None:
    """Return what two episodes of a task agree in if one repeats the other; None: not known."""
    began = record.first_observation
    return None if began is None else (began, record.trace)


def _rate_task(line: Line, successes: int) -> Line:
    episodes = line.n + line.errors
    line = replace(
        line,
        rate_worst=successes / episodes,
        rate_best=(successes + line.errors) / episodes,
    )
    if not line.n:
        return line
    line = replace(line, successes=successes, rate=successes / line.n)
    low, high = wilson(_as_distinct(line), line.n_distinct)
    return replace(
        line,
        ci_low=low,
        ci_high=high,
        n_effective=float(line.n_distinct),
    )


def _as_distinct(line: Line) -> float:
    """Return the successes that as many episodes as are distinct would have at this rate."""
    successes = line.successes or 0
    return successes if line.n_distinct == line.n else successes * line.n_distinct / line.n


def _average(suite: str | None, found: Mapping[str, TaskOutcomes], groups: Groups) -> Line:
    tasks = [each.line for each in found.values()]
    played = [task for task in tasks if task.n > task.policy_errors]
    # Beside a rate stand the episodes and tasks that it is of.
    shown = [task for task in tasks if task.successes is not None] or tasks
    line = Line(
        suite=suite,
        n=sum(task.n for task in shown),
        n_distinct=sum(task.n_distinct for task in shown),
        n_tasks=sum(task.n_tasks for task in shown),
        mean_return=_mean([task.mean_return for task in played]),
        mean_steps=_mean([task.mean_steps for task in played]),
        errors=sum(task.errors for task in tasks),
        policy_errors=sum(task.policy_errors for task in shown),
        rate_worst=_mean([task.rate_worst for task in tasks if task.rate_worst is not None]),
        rate_best=_mean([task.rate_best for task in tasks if task.rate_best is not None]),
    )
    rated = {task: each for task, each in found.items() if each.line.rate is not None}
    return _rate_tasks(line, rated, groups) if rated else line


def _rate_tasks(line: Line, rated: Mapping[str, TaskOutcomes], groups: Groups) -> Line:
    played = sample(rated, groups)
    these = stratified(played.tallies, columns=played.columns)
    alike = tasks_like_these(played.tallies, columns=played.columns)
    lines = [each.line for each in rated.values()]
    return replace(
        line,
        successes=sum(each.successes or 0 for each in lines),
        rate=_mean([each.rate for each in lines]),
        ci_low=these.low,
        ci_high=these.high,
        n_effective=these.n_effective,
        ci_low_tasks=alike.low if alike else None,
        ci_high_tasks=alike.high if alike else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if a value is missing or the mean is not finite."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    # Rewards are foreign: statistics.mean neither overflows nor depends on the order.
    average = float(mean(known))
    return average if isfinite(average) else None
