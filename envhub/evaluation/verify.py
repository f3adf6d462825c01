"""Replay recorded episodes and compare them."""

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from envhub.errors import RunDirectoryError, UnknownName
from envhub.evaluation.consistency import find_contradiction, find_problems
from envhub.evaluation.judge import (
    AGAIN,
    ORDER,
    Verdict,
    VerdictName,
    compare_machines,
    find_denied_repeats,
    judge,
    judge_actions,
)
from envhub.evaluation.recorded import check_policy_is_named
from envhub.evaluation.request import Watcher
from envhub.evaluation.rerun import Playback, Rerun, RerunOptions, check_seal, prepare_rerun
from envhub.evaluation.run import play
from envhub.records import EpisodeRecord
from envhub.results.arrays import Arrays, read_arrays
from envhub.results.baselines import baseline_directory, baseline_names
from envhub.results.journal import check_directory
from envhub.results.paired import exact_conditional, permute
from envhub.results.reproduction import Reproduction, judge_claim
from envhub.results.run import Run, open_run
from envhub.results.seal import is_sealed
from envhub.results.statistics import Sample, column_means, find_columns, most_false
from envhub.results.summary import summarize
from envhub.run_info import MAX_EPISODES, RunInfo
from envhub.wire.values import Array

_ACCUSED = 0.05
"""The p-value of an exact test from which a rate is shown to be another one."""
SAMPLE = 50
"""Episodes that are played again unless the user gives another number."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What the policy did in episodes whose seeds the verifier drew."""

    seed: int
    episodes: int
    """Per task."""
    lost: int = 0
    """Episodes that an error of the env ended."""
    found: Reproduction | None = None
    """The run's rate compared with theirs; None if one of them has no successes to compare."""

    @property
    def contradicts(self) -> bool:
        """Whether the run's rate is shown to be another one."""
        return self.found is not None and self.found.verdict in ("lower", "higher")


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of a run's episodes."""

    directory: Path
    planned: int
    """Episodes that the run was to have."""
    sample_seed: int
    """By which the episodes were chosen."""
    problems: tuple[str, ...] = ()
    """How the run's files contradict each other, beyond single episodes."""
    episodes: tuple[Verdict, ...] = ()
    """A verdict per recorded episode, in the order of the plan."""
    policy: tuple[Verdict, ...] | None = None
    """Of the episodes that the policy played again; None: it was not asked to."""
    machine: tuple[str, ...] = ()
    """How this machine differs from that of the run."""
    drift_is_excused: bool = False
    """Whether another machine explains a drift, and the drift is not in what is measured."""
    ended: int = 0
    """Episodes that were played to their end, from which the sample was drawn."""
    checked: int = 0
    """Episodes of the sample that were played again."""
    lost: int = 0
    """Episodes that do not count, for an error of the env ended them."""
    unconfirmed: int = 0
    """Those of the lost ones whose error did not occur again: each could hide a failure."""
    policy_errors: int = 0
    """Episodes that failed by an error of the policy, which no actions show."""
    baselines: Mapping[str, "Verification"] = field(default_factory=dict)
    """Of the baselines, by their names."""
    fresh: Fresh | None = None
    """What the policy did in episodes that the run does not have; None: it was not asked to."""
    python: str = ""
    """The version of the workers here; empty if nothing was played."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The versions of the benchmark's packages here."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, in the baselines neither; what is missing is not wrong."""
        bad = {"tampered", "missing", "different"}
        bad |= set() if self.drift_is_excused else {"drifted"}
        verdicts = (*self.episodes, *(self.policy or ()))
        return (
            not self.problems
            and not any(each.verdict in bad for each in verdicts)
            and all(baseline.ok for baseline in self.baselines.values())
            and (self.fresh is None or not self.fresh.contradicts)
        )

    @property
    def verdict(self) -> VerdictName:
        """The worst verdict."""
        if self.problems:
            return "tampered"
        names = {each.verdict for each in (*self.episodes, *(self.policy or ()))}
        return next((name for name in ORDER if name in names), "not checked")

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a record."""
        return len(self.episodes) == self.planned

    @property
    def most_false(self) -> int | None:
        """How many of the ended episodes may be false, at 95 %; None if something is wrong."""
        return most_false(self.ended, self.checked) if self.ok and self.checked else None

    def count(self, name: VerdictName) -> int:
        """Return how many episodes have that verdict."""
        return sum(each.verdict == name for each in self.episodes)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Which episodes to play again, and how."""

    episodes: int | None = SAMPLE
    """How many; None: all."""
    tasks: tuple[str, ...] = ()
    """Only these; none: all."""
    policy: bool = False
    """Whether the policy is to choose the actions again."""
    seed: int | None = None
    """Chooses the episodes; None: one that nobody knew when the run was made."""
    fresh: int | None = None
    """Episodes per task that the policy plays on seeds of the verifier; None: none."""


def verify_run(
    directory: Path,
    request: VerifyRequest,
    options: RerunOptions,
    watcher: Watcher,
    on_checked: Callable[[int, int], object] = lambda _done, _total: None,
) -> Verification:
    """Check a run's files against each other, then play its episodes again; its baselines, too.

    Nothing is executed if the files contradict each other.

    Args:
        directory: Of the run.
        request: Which episodes, and how.
        options: What the user says about running their code.
        watcher: Receives messages.
        on_checked: Called with the numbers of episodes played again, and to play.

    Raises:
        RunDirectoryError: The directory has no run, its benchmark is another one now, or its policy
            is to act and it does not carry this user's seal.
        UsageError: There is no such task.
    """
    check_directory(directory)
    run = open_run(directory)
    for task in request.tasks:
        if task not in run.run_info.plan.tasks:
            raise UnknownName("task", task, run.run_info.plan.tasks)
    seed = secrets.randbits(32) if request.seed is None else request.seed
    request = replace(request, seed=seed)
    found = _verify(run, request, options, watcher, on_checked)
    if request.fresh is not None and not found.problems and not found.count("tampered"):
        fresh = _play_fresh(run.keep_records(), request, options, watcher, on_checked)
        found = replace(found, fresh=fresh)
    count = 0 if found.problems or found.count("tampered") else request.episodes
    of_baseline = replace(request, policy=False, episodes=count)
    baselines = {
        name: _verify_baseline(name, run, of_baseline, options, watcher)
        for name in baseline_names(directory)
    }
    return replace(found, baselines=baselines)


def _verify_baseline(
    name: str, run: Run, request: VerifyRequest, options: RerunOptions, watcher: Watcher
) -> Verification:
    """Verify a baseline, which must have played the run's episodes by the policy of its name."""
    directory = baseline_directory(run.directory, name)
    found = Verification(directory, run.planned, request.seed or 0)
    try:
        check_directory(directory)
        baseline = open_run(directory)
        info = baseline.run_info
        if info.policy.ref != name:
            raise RunDirectoryError(f"The policy of the baseline {name} is {info.policy.ref}.")
        if info.plan != run.run_info.plan:
            raise RunDirectoryError(f"The plan of the baseline {name} is not that of the run.")
        if not baseline.records():  # it is not shown, either
            return found
    except RunDirectoryError as error:
        return replace(found, problems=(str(error),))
    return _verify(baseline, request, options, watcher)


def _verify(
    run: Run,
    request: VerifyRequest,
    options: RerunOptions,
    watcher: Watcher,
    on_checked: Callable[[int, int], object] = lambda _done, _total: None,
) -> Verification:
    assert request.seed is not None
    found = Verification(run.directory, run.planned, request.seed)
    try:
        run = run.keep_records()
    except RunDirectoryError as error:  # a record of another plan, or none
        return replace(found, problems=(str(error),))
    records = run.records()
    ended, failed = _split(records, request.tasks)
    drawn = random.Random(request.seed)  # noqa: S311 - which episodes, not a secret
    chosen = {
        record.number: record
        for pool in (ended, failed)
        for record in draw(pool, request.episodes, drawn)
    }
    kept: dict[int, Arrays] = {}
    verdicts = {
        record.number: _check_files(run, record, kept if record.number in chosen else None)
        for record in records
    }
    lost = sum(not record.counts for record in records)
    found = replace(
        found,
        problems=tuple(find_problems(run)) if records else ("It has no records.",),
        episodes=_fill(records, verdicts),
        ended=len(ended),
        lost=lost,
        unconfirmed=lost,
        policy_errors=sum(record.failed_by_policy for record in records),
    )
    sample = _Sample({n: each for n, each in chosen.items() if verdicts[n] is None}, kept)
    if found.problems or found.count("tampered") or not sample.chosen:
        return found
    if request.policy and options.policy is None:
        check_seal(run, options, acts=True)
        check_policy_is_named(run.run_info, run.directory)
    played, here, by_policy = _play_sample(
        run, sample, options, watcher, on_checked, policy=request.policy
    )
    machine = tuple(compare_machines(run.run_info, here))
    return replace(
        found,
        python=here.runtime.python,
        packages=here.runtime.packages,
        episodes=_fill(records, verdicts | played),
        policy=by_policy,
        machine=machine,
        drift_is_excused=bool(machine) and _excuses_drift(run),
        checked=len(sample.ended),
        unconfirmed=lost - sum(each.reason == AGAIN for each in played.values()),
    )


def _play_fresh(
    run: Run,
    request: VerifyRequest,
    options: RerunOptions,
    watcher: Watcher,
    on_checked: Callable[[int, int], object],
) -> Fresh:
    """Let the policy play episodes that whoever made the run could not choose."""
    assert request.fresh is not None
    if options.policy is None:
        check_seal(run, options, acts=True)
        check_policy_is_named(run.run_info, run.directory)
    drawn = random.Random(f"fresh {request.seed}")  # noqa: S311 - as secret as the seed
    seed = drawn.randrange(2**31 - MAX_EPISODES)
    records: list[EpisodeRecord] = []
    with prepare_rerun(run, options, watcher, fresh=(seed, request.fresh)) as rerun:
        plan = rerun.prepared.plan
        episodes = tuple(
            each for each in plan.episodes if not request.tasks or each.task in request.tasks
        )

        def on_record(record: EpisodeRecord, _actions: Array | None, _steps: Array | None) -> None:
            records.append(record)
            on_checked(len(records), len(episodes))

        play(rerun.prepared, episodes, rerun.logs, on_record)
    found = _compare_fresh(run, run.records(), records)
    lost = sum(not record.counts for record in records)
    return Fresh(seed, request.fresh, lost, found)


def _compare_fresh(
    run: Run, records: Sequence[EpisodeRecord], fresh: Sequence[EpisodeRecord]
) -> Reproduction | None:
    """Compare the rates of tasks that both have; None: there is none.

    Repeats count, too: a forged record could be made to look like one.
    """
    groups = run.run_info.plan.seed_groups
    old, new = (_outcomes(run, each) for each in (records, fresh))
    both = [task for task in old if task in new]
    if not both:
        return None
    sides = [{task: each[task] for task in both} for each in (old, new)]
    tallies = [
        [(sum(value for _, value in each), len(each)) for each in side.values()] for side in sides
    ]
    columns = [find_columns(side, groups) for side in sides]
    found = judge_claim(*map(Sample, tallies, columns))
    if found.verdict in ("reproduced", "undecided"):
        return found
    # Of a few episodes the interval is too narrow to accuse anybody.
    shared = found.seeds is not None
    p = permute(*map(column_means, sides)) if shared else exact_conditional(*tallies).p
    return replace(found, verdict="undecided") if p > _ACCUSED else found


def _outcomes(run: Run, records: Sequence[EpisodeRecord]) -> dict[str, list[tuple[int, int]]]:
    """Return the index of each episode that counts, and 1 for a success, of tasks with a rate."""
    rated = {line.task for line in summarize(records, run.suites).tasks if line.rate is not None}
    found: dict[str, list[tuple[int, int]]] = {}
    for record in records:
        if record.counts and record.task in rated:
            found.setdefault(record.task, []).append((record.episode, int(record.success is True)))
    return found


def draw(
    records: Sequence[EpisodeRecord], count: int | None, drawn: random.Random
) -> list[EpisodeRecord]:
    """Return so many of the episodes, each as likely as any other; None: all."""
    if count is None or len(records) <= count:
        return list(records)
    return sorted(drawn.sample(records, count), key=lambda record: record.number)


def _split(
    records: Sequence[EpisodeRecord], tasks: Sequence[str]
) -> tuple[list[EpisodeRecord], list[EpisodeRecord]]:
    """Return the episodes of these tasks that were played to their end, and the others."""
    asked = [record for record in records if not tasks or record.task in tasks]
    return [r for r in asked if r.error is None], [r for r in asked if r.error is not None]


def _excuses_drift(run: Run) -> bool:
    """Whether a drift on another machine is no forgery, or changes nothing that is measured.

    Somebody else names any machine he likes; a drift then must not be in the result. A drifted
    episode has the same success.
    """
    measured = all(r.success is not None for r in run.records() if r.error is None)
    return measured or is_sealed(run.info)


def _check_files(run: Run, record: EpisodeRecord, kept: dict[int, Arrays] | None) -> Verdict | None:
    """Return the verdict of an episode that cannot be played again; None for others.

    Args:
        run: The run.
        record: The episode.
        kept: Receives what is stored of it, for a file is opened once; None: it is not kept.
    """
    try:
        stored = read_arrays(run.directory, record.number)
        problem = find_contradiction(record, stored, run.run_info.plan.tasks[record.task])
        if kept is not None:
            kept[record.number] = stored
    except RunDirectoryError as error:
        problem = str(error)
    except FileNotFoundError as missing:
        return Verdict(record.task, record.episode, "missing", str(missing))
    if problem is not None:
        return Verdict(record.task, record.episode, "tampered", problem)
    return None


def _fill(
    records: Sequence[EpisodeRecord], verdicts: Mapping[int, Verdict | None]
) -> tuple[Verdict, ...]:
    return tuple(
        verdicts[record.number]
        or Verdict(record.task, record.episode, "not checked", "it was not played again")
        for record in records
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """The episodes to play again, by their numbers."""

    chosen: Mapping[int, EpisodeRecord]
    kept: Mapping[int, Arrays]
    """What is stored of them."""

    @property
    def ended(self) -> list[EpisodeRecord]:
        return [record for record in self.chosen.values() if record.error is None]

    def actions(self, number: int) -> Array:
        """Return an episode's actions; if an error came before its first step, one of another's."""
        own = self.kept[number].actions
        if own is not None:
            return own
        task = self.chosen[number].task
        others = sorted(self.chosen, key=lambda other: self.chosen[other].task != task)
        found = (self.kept[other].actions for other in others)
        # Where there is none at all, one that the env may refuse.
        return next((each[:1] for each in found if each is not None), np.zeros((1, 1), np.float32))


def _play_sample(
    run: Run,
    sample: _Sample,
    options: RerunOptions,
    watcher: Watcher,
    on_checked: Callable[[int, int], object],
    *,
    policy: bool,
) -> tuple[dict[int, Verdict], RunInfo, tuple[Verdict, ...] | None]:
    """Play a sample again, by its actions and if asked by the policy.

    Returns:
        The verdicts by number, what `run.json` would say here, and the verdicts of what the policy
        did.
    """
    chosen, ended = list(sample.chosen.values()), sample.ended
    total, done = len(chosen) + (len(ended) if policy else 0), 0

    def count() -> None:
        nonlocal done
        done += 1
        on_checked(done, total)

    playback = Playback(sample.actions, chosen)
    with prepare_rerun(run, options, watcher, policy=playback) as rerun:
        here = rerun.prepared.info
        played = _play_again(rerun, chosen, sample.kept, count, first_leaves=_first_leaves(chosen))
    if not policy or not ended:
        return played, here, () if policy else None
    with prepare_rerun(run, options, watcher) as rerun:
        here = rerun.prepared.info
        return played, here, tuple(_play_again(rerun, ended, sample.kept, count).values())


def _play_again(
    rerun: Rerun,
    chosen: Sequence[EpisodeRecord],
    kept: Mapping[int, Arrays],
    on_checked: Callable[[], None],
    *,
    first_leaves: Mapping[int, tuple[str, ...] | None] | None = None,
) -> dict[int, Verdict]:
    recorded = {record.number: record for record in chosen}
    episodes = tuple(e for e in rerun.prepared.plan.episodes if e.number in recorded)
    verdicts: dict[int, Verdict] = {}
    records: list[EpisodeRecord] = []

    def on_record(record: EpisodeRecord, actions: Array | None, steps: Array | None) -> None:
        stored, then = kept[record.number], recorded[record.number]
        records.append(record)
        found = judge(then, record, stored.steps, steps)
        verdicts[record.number] = judge_actions(found, then, record, stored.actions, actions)
        on_checked()

    # Where errors are recorded, they are no reason to give up.
    expected = any(record.error is not None for record in chosen)
    play(
        rerun.prepared,
        episodes,
        rerun.logs,
        on_record,
        worked=expected,
        first_leaves=first_leaves,
    )
    verdicts |= find_denied_repeats(recorded, records)
    return {number: verdicts[number] for number in sorted(verdicts)}


def _first_leaves(chosen: Sequence[EpisodeRecord]) -> dict[int, tuple[str, ...] | None]:
    """Return the leaves of each first observation that is recorded: nothing else is drawn."""
    return {
        record.number: record.first_leaves
        for record in chosen
        if record.first_observation is not None and record.first_leaves != ()
    }
