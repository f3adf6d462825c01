"""Any number of runs side by side: policies by benchmarks, and each against a baseline.

The rates and intervals are those of the runs' summaries, and the differences those of `compare`,
adjusted by Holm's method over all of them. Seeds have rows of their own or are pooled: then their
episodes are taken as those of one run, each once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import stdev
from typing import Any, Literal

from msgspec import structs

from envhub.errors import RunDirectoryError, UnknownName, UsageError
from envhub.records import EpisodeRecord
from envhub.results.comparable import check_comparable
from envhub.results.compare import ALPHA, Verdict, compare
from envhub.results.experiment import Cell, Experiment
from envhub.results.paired import holm
from envhub.results.paste import describe_policy
from envhub.results.run import Run, open_run
from envhub.results.summary import Line
from envhub.run_info import MAX_EPISODES, RunInfo, canonical

SeedRows = Literal["rows", "pool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more often a policy succeeds than the baseline, on the same episodes."""

    difference: float
    ci_low: float
    ci_high: float
    p: float
    p_holm: float
    """Adjusted for all differences of the matrix."""
    pairs: int
    dropped: int
    """Pairs that do not count: not played, or ended by an error of the env."""
    verdict: Verdict
    """By the adjusted p-value, at 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A policy on a benchmark, with one seed or with all of them."""

    policy: str
    benchmark: str
    seeds: tuple[int, ...]
    """Those with a run."""
    runs: tuple[str, ...]
    """Their directories."""
    line: Line | None = None
    """The rates; None if there is no run."""
    planned: int = 0
    recorded: int = 0
    seed_rates: tuple[float, ...] = ()
    """Of several seeds that are pooled."""
    seed_deviation: float | None = None
    """The standard deviation of these rates."""
    difference: Difference | None = None
    reason: str | None = None
    """Why there is no run, no rate or no difference."""

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a record."""
        return self.recorded == self.planned > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Policies by benchmarks."""

    policies: tuple[str, ...]
    benchmarks: tuple[str, ...]
    baseline: str | None
    seeds: SeedRows
    cells: tuple[MatrixCell, ...]
    """By benchmark, policy and seed; none is left out."""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, int | None]]:
        """The policies; each with its seeds where these have rows."""
        return list(dict.fromkeys(map(self.row, self.cells)))

    def row(self, cell: MatrixCell) -> tuple[str, int | None]:
        """The row of a cell."""
        return cell.policy, cell.seeds[0] if self.seeds == "rows" and cell.seeds else None

    def at(self, row: tuple[str, int | None], benchmark: str) -> MatrixCell | None:
        """The cell of a row and a column."""
        found = (c for c in self.cells if c.benchmark == benchmark and self.row(c) == row)
        return next(found, None)

    @property
    def compared(self) -> int:
        """How many differences were adjusted together."""
        return sum(cell.difference is not None for cell in self.cells)

    @property
    def method(self) -> str:
        """How it was computed, in a line."""
        said = "Rates are means over tasks with stratified Wilson 95 % intervals"
        if self.seeds == "pool" and any(len(cell.seeds) > 1 for cell in self.cells):
            said += ", of the episodes of all seeds (sd: standard deviation of the seeds' rates)"
        if self.baseline is None or not self.compared:
            return f"{said}."
        over = f"all {self.compared} differences" if self.compared > 1 else "one difference"
        return (
            f"{said}; differences to {self.baseline} on the same episodes, in percentage points, "
            "with Bonett and Price's 95 % intervals; * p < 0.05 by McNemar's exact test, adjusted "
            f"by Holm over {over}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data: what `envhub compare --json` prints of a matrix."""
        return {
            "policies": list(self.policies),
            "benchmarks": list(self.benchmarks),
            "baseline": self.baseline,
            "seeds": self.seeds,
            "method": self.method,
            "notes": list(self.notes),
            "cells": [asdict(cell) | {"complete": cell.complete} for cell in self.cells],
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in its place."""

    policy: str
    benchmark: str
    seed: int
    run: Run | None
    reason: str | None = None
    """Why there is no run."""


def entries_of(experiment: Experiment) -> list[Entry]:
    """Return the cells of an experiment, with the runs that have begun."""
    failures = experiment.failures()
    return [_entry(cell, failures.get(cell.directory.name)) for cell in experiment.cells]


def _entry(cell: Cell, failure: str | None) -> Entry:
    if not (cell.directory / "run.json").exists():
        reason = failure or "not played yet"
        return Entry(cell.policy, cell.benchmark, cell.seed, None, reason)
    try:
        run = open_run(cell.directory).keep_records()
    except RunDirectoryError as exc:
        return Entry(cell.policy, cell.benchmark, cell.seed, None, str(exc))
    return Entry(cell.policy, cell.benchmark, cell.seed, run, failure)


def entries_of_runs(runs: Sequence[Run]) -> list[Entry]:
    """Return runs by their policies, benchmarks and seeds.

    Runs that have all of these in common are told apart by their directories.

    Raises:
        UsageError: A run is named twice.
    """
    places = Counter(run.directory.resolve() for run in runs)
    for place, count in places.items():
        if count > 1:
            raise UsageError(f"{place} is named {count} times: name each run once.")
    columns = _name_columns([run.run_info for run in runs])
    keys = [
        (describe_policy(run.run_info.policy), column, run.run_info.plan.seed)
        for run, column in zip(runs, columns, strict=True)
    ]
    counts = Counter(keys)
    twice = {key[0] for key, count in counts.items() if count > 1}
    return [
        Entry(
            f"{policy} ({run.directory.name})" if policy in twice else policy,
            benchmark,
            seed,
            run,
        )
        for run, (policy, benchmark, seed) in zip(runs, keys, strict=True)
    ]


def _name_columns(infos: Sequence[RunInfo]) -> list[str]:
    """Name what was asked of each run: by the benchmark, and by what makes two questions of one."""
    asked = [
        (
            info.benchmark.ref,
            ", ".join(sorted(info.plan.tasks)),
            ", ".join(f"{k}={canonical(v)}" for k, v in info.benchmark.env_args.items()),
        )
        for info in infos
    ]
    named = []
    for ref, tasks, args in asked:
        same = [other for other in asked if other[0] == ref]
        told = [tasks] if len({other[1] for other in same}) > 1 else []
        told += [args or "no arguments"] if len({other[2] for other in same}) > 1 else []
        named.append(f"{ref} ({'; '.join(told)})" if told else ref)
    return named


def make_matrix(
    entries: Sequence[Entry], *, baseline: str | None = None, seeds: SeedRows = "pool"
) -> Matrix:
    """Make the matrix of some runs.

    Args:
        entries: The runs, and the cells without one.
        baseline: The policy that the others are compared with; None: no differences.
        seeds: Whether each seed has a row, or all of a cell are pooled.

    Raises:
        UnknownName: No policy has the baseline's name.
    """
    policies = tuple(dict.fromkeys(entry.policy for entry in entries))
    benchmarks = tuple(dict.fromkeys(entry.benchmark for entry in entries))
    if baseline is not None and baseline not in policies:
        raise UnknownName("policy", baseline, policies, advice="--baseline names a row.")
    groups: dict[tuple[str, str, int | None], list[Entry]] = {}
    for entry in entries:
        seed = entry.seed if seeds == "rows" else None
        groups.setdefault((entry.benchmark, entry.policy, seed), []).append(entry)
    pooled = {key: _pool(group) for key, group in groups.items()}
    cells: list[MatrixCell] = []
    for (benchmark, policy, seed), group in groups.items():
        cell = _cell(policy, benchmark, group, pooled[benchmark, policy, seed])
        if baseline is not None and policy != baseline:
            other = pooled.get((benchmark, baseline, seed))
            cell = _compared(cell, pooled[benchmark, policy, seed], other)
        cells.append(cell)
    return Matrix(
        policies=policies,
        benchmarks=benchmarks,
        baseline=baseline,
        seeds=seeds,
        cells=_adjusted(cells),
        notes=tuple(dict.fromkeys(note for each in pooled.values() for note in each.notes)),
    )


@dataclass(frozen=True, slots=True)
class _Pooled:
    """The runs of a cell, and their episodes as those of one run."""

    runs: tuple[Run, ...]
    whole: Run | None
    problem: str | None = None
    notes: tuple[str, ...] = ()


def _pool(group: Sequence[Entry]) -> _Pooled:
    found = (e for e in sorted(group, key=lambda e: e.seed) if e.run is not None)
    runs = tuple(e.run.keep_records() for e in found if e.run is not None)
    if not runs:
        return _Pooled((), None)
    if len(runs) == 1:
        return _Pooled(runs, runs[0])
    first = runs[0]
    for other in runs[1:]:
        # But for the seed they must have played alike.
        plan = structs.replace(other.run_info.plan, seed=first.run_info.plan.seed)
        try:
            check_comparable(first.run_info, structs.replace(other.run_info, plan=plan))
        except UsageError as exc:
            return _Pooled(runs, None, _reason(exc))
        if set(other.run_info.plan.tasks) != set(first.run_info.plan.tasks):
            return _Pooled(runs, None, "the seeds played different tasks")
    kept: dict[tuple[str, int, int | None], EpisodeRecord] = {}
    for place, run in enumerate(runs):
        offset = place * MAX_EPISODES  # so that no two seeds have an index in common
        for record in run.records():
            key = record.task, record.seed, record.init_state
            kept.setdefault(key, replace(record, episode=record.episode + offset))
    total = sum(len(run.records()) for run in runs)
    notes: tuple[str, ...] = ()
    episodes = sum(run.run_info.plan.episodes for run in runs)
    if len(kept) < total:
        note = (
            f"Some seeds of {group[0].policy} on {group[0].benchmark} play the same episodes in "
            f"part: {total - len(kept)} of {total} records are of an episode that counts already."
        )
        notes = (note,)
        episodes -= -(-(total - len(kept)) // len(first.run_info.plan.tasks))
    plan = structs.replace(first.run_info.plan, episodes=episodes)
    whole = replace(
        first, run_info=structs.replace(first.run_info, plan=plan), kept=tuple(kept.values())
    )
    return _Pooled(runs, whole, None, notes)


def _cell(policy: str, benchmark: str, group: Sequence[Entry], found: _Pooled) -> MatrixCell:
    begun = tuple(entry.seed for entry in group if entry.run is not None)
    reasons = dict.fromkeys(entry.reason for entry in group if entry.reason is not None)
    reason = "; ".join(reasons) or found.problem
    cell = MatrixCell(
        policy=policy,
        benchmark=benchmark,
        seeds=begun or tuple(entry.seed for entry in group),
        runs=tuple(str(run.directory) for run in found.runs),
        planned=sum(run.planned for run in found.runs),
        recorded=sum(len(run.records()) for run in found.runs),
        reason=reason,
    )
    if found.whole is None:
        return cell
    line = found.whole.summary().overall
    if line.rate is None and cell.reason is None:
        cell = replace(cell, reason="no success is reported" if line.n else "no episode counts")
    if len(found.runs) < 2:
        return replace(cell, line=line)
    rates = [run.summary().overall.rate for run in found.runs]
    known = tuple(rate for rate in rates if rate is not None)
    spread = stdev(known) if len(known) > 1 else None
    return replace(cell, line=line, seed_rates=known, seed_deviation=spread)


def _compared(cell: MatrixCell, found: _Pooled, baseline: _Pooled | None) -> MatrixCell:
    """Add the difference to the baseline, or why there is none."""
    if found.whole is None or cell.line is None or cell.line.rate is None:
        return cell
    if baseline is None or baseline.whole is None:
        return replace(cell, reason=cell.reason or "the baseline has no run there")
    seeds = [{run.run_info.plan.seed for run in side.runs} for side in (found, baseline)]
    if seeds[0] != seeds[1]:
        return replace(cell, reason=cell.reason or "the baseline has other seeds there")
    try:
        compared = compare(baseline.whole, found.whole)
    except UsageError as exc:
        return replace(cell, reason=cell.reason or _reason(exc))
    return replace(
        cell,
        difference=Difference(
            difference=compared.difference,
            ci_low=compared.ci_low,
            ci_high=compared.ci_high,
            p=compared.p,
            p_holm=compared.p,
            pairs=sum(task.n_b for task in compared.tasks),
            dropped=compared.dropped,
            verdict=compared.verdict,
        ),
    )


def _adjusted(cells: Sequence[MatrixCell]) -> tuple[MatrixCell, ...]:
    """Adjust the p-values of all differences together."""
    p_values = [cell.difference.p for cell in cells if cell.difference is not None]
    adjusted = iter(holm(p_values))
    return tuple(
        cell if cell.difference is None else _adjust(cell, cell.difference, next(adjusted))
        for cell in cells
    )


def _adjust(cell: MatrixCell, found: Difference, p_holm: float) -> MatrixCell:
    verdict: Verdict = found.verdict if p_holm < ALPHA else "undecided"
    return replace(cell, difference=replace(found, p_holm=p_holm, verdict=verdict))


def _reason(problem: UsageError) -> str:
    """The reason in an error of `compare`, without its advice for a command of two runs."""
    said = str(problem).split(" --unpaired compares")[0].rstrip(".")
    return f"{said[0].lower()}{said[1:]}"


def default_baseline(experiment: Experiment | None, entries: Sequence[Entry]) -> str | None:
    """Return the baseline that the experiment names, or that of the first run."""
    if experiment is not None:
        return experiment.question.baseline
    return entries[0].policy if entries else None
