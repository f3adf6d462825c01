"""The summary of a run: rates with intervals, by task, by suite and overall. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from statistics import mean

from envhub.records import EpisodeRecord
from envhub.results.statistics import Tally, stratified, tasks_like_these, wilson


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
    n_tasks: int
    """The tasks with at least one episode that counts."""
    successes: int | None = None
    """None, as are the rate and its interval, if no task reports success or no episode counts."""
    rate: float | None = None
    ci_low: float | None = None
    """The 95 % interval for these tasks, played again with other episodes."""
    ci_high: float | None = None
    n_effective: float | None = None
    """Episodes of a single pool that would tell as much; for a task, the episodes that count."""
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

    def __str__(self) -> str:
        from envhub.results.table import render

        return render(self)


def summarize(records: Iterable[EpisodeRecord], suites: Mapping[str, Sequence[str]]) -> Summary:
    """Summarize a run.

    Whether success is reported is a fact about each task: it is if any of its episodes with status
    ok reports one, and its other ok episodes are then failures. A task without an ok episode is
    assumed to report success if another task does, or if no episode of the run is ok. So a policy
    that fails in every episode has a rate of 0.

    Args:
        records: One per episode, in any order, recorded under any of their suites.
        suites: The names of the tasks of each evaluated suite.

    Raises:
        ValueError: A record's task is in none of the suites.
    """
    by_task = _group_by_task(records, suites)
    reported = {task: _reports(each) for task, each in by_task.items()}
    otherwise = any(reported.values()) or all(known is None for known in reported.values())
    lines: dict[str, Line] = {}
    for suite, tasks in suites.items():
        for task in tasks:
            if task not in lines:
                known = reported[task]
                reports = otherwise if known is None else known
                lines[task] = _summarize_task(suite, task, by_task[task], reports=reports)
    return Summary(
        tasks=tuple(lines.values()),
        suites=tuple(
            _average(suite, [lines[task] for task in dict.fromkeys(tasks)])
            for suite, tasks in suites.items()
        ),
        overall=_average(None, list(lines.values())),
    )


def settle(
    summary: Summary, suites: Mapping[str, Sequence[str]], episodes: int, *, succeeded: bool
) -> Summary:
    """Summarize as if every planned episode without a result had failed, or succeeded.

    Args:
        summary: Of the episodes that have one.
        suites: The names of the tasks of each evaluated suite.
        episodes: The planned episodes per task.
        succeeded: Whether they had succeeded.
    """
    lines = {
        line.task: _settle_task(line, episodes, succeeded=succeeded)
        for line in summary.tasks
        if line.task is not None
    }
    return Summary(
        tasks=tuple(lines.values()),
        suites=tuple(
            _average(suite, [lines[task] for task in dict.fromkeys(tasks)])
            for suite, tasks in suites.items()
        ),
        overall=_average(None, list(lines.values())),
    )


def _settle_task(line: Line, episodes: int, *, succeeded: bool) -> Line:
    unknown = line.n + line.errors > 0 and line.rate_worst is None  # it reports no success
    lost = episodes - line.n
    if unknown or not lost:
        return line
    successes = (line.successes or 0) + (lost if succeeded else 0)
    return _rate_task(replace(line, n=episodes, n_tasks=1, errors=0), successes)


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


def _summarize_task(suite: str, task: str, records: list[EpisodeRecord], *, reports: bool) -> Line:
    ok = [record for record in records if record.status == "ok"]
    n = sum(record.counts for record in records)
    line = Line(
        suite=suite,
        task=task,
        n=n,
        n_tasks=1 if n else 0,
        mean_return=_mean([record.return_ for record in ok]),
        mean_steps=_mean([record.steps for record in ok]),
        errors=len(records) - n,
        policy_errors=sum(record.failed_by_policy for record in records),
    )
    if not (records and reports):
        return line
    return _rate_task(line, successes=sum(record.success is True for record in ok))


def _rate_task(line: Line, successes: int) -> Line:
    episodes = line.n + line.errors
    line = replace(
        line,
        rate_worst=successes / episodes,
        rate_best=(successes + line.errors) / episodes,
    )
    if not line.n:
        return line
    low, high = wilson(successes, line.n)
    return replace(
        line,
        successes=successes,
        rate=successes / line.n,
        ci_low=low,
        ci_high=high,
        n_effective=float(line.n),
    )


def _average(suite: str | None, tasks: list[Line]) -> Line:
    played = [task for task in tasks if task.n > task.policy_errors]
    # Beside a rate stand the episodes and tasks that it is of.
    rated = [task for task in tasks if task.successes is not None] or tasks
    line = Line(
        suite=suite,
        n=sum(task.n for task in rated),
        n_tasks=sum(task.n_tasks for task in rated),
        mean_return=_mean([task.mean_return for task in played]),
        mean_steps=_mean([task.mean_steps for task in played]),
        errors=sum(task.errors for task in tasks),
        policy_errors=sum(task.policy_errors for task in tasks),
        rate_worst=_mean([task.rate_worst for task in tasks if task.rate_worst is not None]),
        rate_best=_mean([task.rate_best for task in tasks if task.rate_best is not None]),
    )
    tallies = [(task.successes, task.n) for task in tasks if task.successes is not None]
    return _rate_tasks(line, tallies) if tallies else line


def _rate_tasks(line: Line, tallies: list[Tally]) -> Line:
    these, alike = stratified(tallies), tasks_like_these(tallies)
    return replace(
        line,
        successes=sum(successes for successes, _ in tallies),
        rate=_mean([successes / n for successes, n in tallies]),
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
