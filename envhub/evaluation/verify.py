"""Whether recorded episodes go again as they were recorded."""

import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from envhub.errors import RunDirectoryError, UnknownName
from envhub.evaluation.again import Again, Consent, Playback, check_seal, prepared_again
from envhub.evaluation.consistency import find_contradiction, find_problems
from envhub.evaluation.recorded import check_policy_is_named
from envhub.evaluation.replay import first_difference
from envhub.evaluation.request import Watcher
from envhub.evaluation.run import play
from envhub.records import EpisodeRecord
from envhub.results.arrays import Arrays, arrays_path, read_arrays
from envhub.results.journal import check_directory
from envhub.results.run import Run, open_run
from envhub.run_info import BenchmarkInfo, RunInfo
from envhub.wire.values import Array

VerdictName = Literal["identical", "equivalent", "drifted", "different", "tampered", "not checked"]
ORDER: tuple[VerdictName, ...] = (
    "tampered", "different", "drifted", "equivalent", "not checked", "identical",
)  # fmt: skip
"""The verdicts, the worst first."""
SAMPLE = 50
"""Episodes that are played again unless the user gives another number."""
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
"""How far rewards of equivalent episodes are apart; other kernels of OpenBLAS gave 2e-16."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one episode."""

    task: str
    episode: int
    verdict: VerdictName
    reason: str = ""
    """What was found, unless it is identical."""
    step: int | None = None
    """The first step that differs, from 1."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of a run's episodes."""

    directory: Path
    problems: tuple[str, ...]
    """How the run's files contradict each other, beyond single episodes."""
    episodes: tuple[Verdict, ...]
    """A verdict per recorded episode, in the order of the plan."""
    policy: tuple[Verdict, ...] | None
    """Of the episodes that the policy played again; None: it was not asked to."""
    machine: tuple[str, ...]
    """How this machine differs from that of the run."""
    sample_seed: int
    """By which the episodes were chosen."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; drifted episodes are, unless the machines differ."""
        bad = {"tampered", "different"} | (set() if self.machine else {"drifted"})
        verdicts = (*self.episodes, *(self.policy or ()))
        return not self.problems and not any(each.verdict in bad for each in verdicts)

    @property
    def verdict(self) -> VerdictName:
        """The worst verdict."""
        if self.problems:
            return "tampered"
        names = {each.verdict for each in (*self.episodes, *(self.policy or ()))}
        return next((name for name in ORDER if name in names), "not checked")

    def count(self, name: VerdictName) -> int:
        """Return how many episodes have that verdict."""
        return sum(each.verdict == name for each in self.episodes)


@dataclass(frozen=True, slots=True)
class Question:
    """Which episodes to play again, and how."""

    episodes: int | None = SAMPLE
    """How many; None: all."""
    tasks: tuple[str, ...] = ()
    """Only these; none: all."""
    policy: bool = False
    """Whether the policy is to choose the actions again."""
    seed: int | None = None
    """Chooses the episodes; None: one that nobody knew when the run was made."""


def verify_run(
    directory: Path,
    question: Question,
    consent: Consent,
    watcher: Watcher,
    on_checked: Callable[[int, int], object] = lambda _done, _total: None,
) -> Verification:
    """Check a run's files against each other, then play its episodes again.

    Nothing is executed if the files contradict each other.

    Args:
        directory: Of the run.
        question: Which episodes, and how.
        consent: What the user says about running their code.
        watcher: Receives messages.
        on_checked: Called with the numbers of episodes played again, and to play.

    Raises:
        RunDirectoryError: The directory has no run, its benchmark is another one now, or its policy
            is to act and it does not carry this user's seal.
        UsageError: There is no such task.
    """
    check_directory(directory)
    run = open_run(directory)
    seed = secrets.randbits(32) if question.seed is None else question.seed
    try:
        run = run.keep_records()
    except RunDirectoryError as error:  # a record of another plan, or none
        return Verification(directory, (str(error),), (), None, (), seed)
    records = run.records()
    sample = choose_sample(run, [r for r in records if _is_stored(run, r)], question, seed)
    kept: dict[int, Arrays] = {}
    sampled = {record.number for record in sample}
    verdicts = {
        record.number: _check_files(run, record, kept if record.number in sampled else None)
        for record in records
    }
    problems = tuple(find_problems(run)) if records else ("It has no records.",)
    chosen = [record for record in sample if verdicts[record.number] is None]
    found = [verdict for verdict in verdicts.values() if verdict is not None]
    if problems or any(each.verdict == "tampered" for each in found) or not chosen:
        return Verification(directory, problems, _fill(records, verdicts), None, (), seed)
    if question.policy:
        check_seal(run, consent)
        check_policy_is_named(run.run_info, directory)
    total = len(chosen) * (2 if question.policy else 1)
    playback = Playback(partial(_actions_of, kept), chosen)
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        on_checked(done, total)

    with prepared_again(run, consent, watcher, policy=playback) as again:
        machine = tuple(compare_machines(run.run_info, again.prepared.info))
        verdicts |= _play_again(again, chosen, kept, count)
    by_policy: tuple[Verdict, ...] | None = None
    if question.policy:
        with prepared_again(run, consent, watcher) as again:
            by_policy = tuple(_play_again(again, chosen, kept, count).values())
    return Verification(directory, problems, _fill(records, verdicts), by_policy, machine, seed)


def choose_sample(
    run: Run, records: Sequence[EpisodeRecord], question: Question, seed: int
) -> list[EpisodeRecord]:
    """Return the episodes to play again: the first of each task, then others by chance.

    Raises:
        UnknownName: The run has no such task.
    """
    for task in question.tasks:
        if task not in run.run_info.plan.tasks:
            raise UnknownName("task", task, run.run_info.plan.tasks)
    records = [r for r in records if not question.tasks or r.task in question.tasks]
    if question.episodes is None or len(records) <= question.episodes:
        return list(records)
    firsts = list({record.task: record for record in reversed(records)}.values())[::-1]
    others = [record for record in records if record not in firsts]
    left = question.episodes - len(firsts)
    drawn = random.Random(seed)  # noqa: S311 - which episodes, not a secret
    if left < 0:
        firsts = drawn.sample(firsts, question.episodes)
    chosen = [*firsts, *(drawn.sample(others, left) if left > 0 else [])]
    return sorted(chosen, key=lambda record: record.number)


def judge(
    recorded: EpisodeRecord,
    again: EpisodeRecord,
    recorded_steps: Array | None,
    steps: Array | None,
) -> Verdict:
    """Compare an episode with how it went again."""

    def verdict(name: VerdictName, reason: str = "", step: int | None = None) -> Verdict:
        return Verdict(recorded.task, recorded.episode, name, reason, step)

    if again.error is not None:
        return verdict("different", f"here an error ended it: {again.error.message}")
    if again.trace == recorded.trace:
        for name in ("out_of_bounds", "description"):
            one, other = getattr(recorded, name), getattr(again, name)
            if one != other:
                return verdict("tampered", f"its {name} is {one}, and here it is {other}")
        return verdict("identical")
    step = first_difference(recorded_steps, steps)
    reason = _describe_step(step, recorded_steps, steps)
    if again.success != recorded.success or again.end != recorded.end:
        outcome = f"{_outcome(recorded)} recorded, {_outcome(again)} here"
        return verdict("different", ", ".join(filter(None, (outcome, reason))), step)
    same = (again.steps, again.success_step) == (recorded.steps, recorded.success_step)
    if same and _are_close(recorded_steps, steps):
        return verdict("equivalent", reason, step)
    return verdict("drifted", reason, step)


def compare_machines(recorded: RunInfo, here: RunInfo) -> Iterable[str]:
    """Yield what the last bits of a result can depend on, and differs from the run's machine."""
    if recorded.machine is None:
        yield "the run does not say what machine it was made on"
    else:
        for name in ("arch", "cpu", "flags", "libc", "openblas", "gl"):
            old, new = getattr(recorded.machine, name), getattr(here.machine, name)
            if old != new and None not in (old, new):
                yield f"{name} {_words(old)} recorded, {_words(new)} here"
    yield from _compare_plugins(recorded.benchmark, here.benchmark)
    packages, ours = recorded.runtime.packages, here.runtime.packages
    for name in sorted({*packages, *ours}):
        if packages.get(name) != ours.get(name):
            yield f"{name} {packages.get(name, 'none')} recorded, {ours.get(name, 'none')} here"
    if recorded.runtime.python != here.runtime.python:
        yield f"Python {recorded.runtime.python} recorded, {here.runtime.python} here"


def _compare_plugins(recorded: BenchmarkInfo, here: BenchmarkInfo) -> Iterable[str]:
    if recorded.kind == here.kind == "plugin" and recorded.files != here.files:
        old, new = recorded.files, here.files
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        yield f"{recorded.package} recorded, {here.package} here ({shown})"


def _is_stored(run: Run, record: EpisodeRecord) -> bool:
    """Whether an episode may be played again, as far as that is known without its file."""
    stored = not record.steps or arrays_path(run.directory, record.number).exists()
    return stored and record.error is None


def _check_files(run: Run, record: EpisodeRecord, kept: dict[int, Arrays] | None) -> Verdict | None:
    """Return the verdict of an episode that is not played again; None for others.

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
        return Verdict(record.task, record.episode, "not checked", str(missing))
    if problem is not None:
        return Verdict(record.task, record.episode, "tampered", problem)
    if record.error is not None:
        return Verdict(record.task, record.episode, "not checked", "an error ended it")
    return None


def _fill(
    records: Sequence[EpisodeRecord], verdicts: Mapping[int, Verdict | None]
) -> tuple[Verdict, ...]:
    return tuple(
        verdicts[record.number]
        or Verdict(record.task, record.episode, "not checked", "it was not played again")
        for record in records
    )


def _actions_of(kept: Mapping[int, Arrays], number: int) -> Array:
    actions = kept[number].actions
    assert actions is not None  # or it would not have been chosen
    return actions


def _play_again(
    again: Again,
    chosen: Sequence[EpisodeRecord],
    kept: Mapping[int, Arrays],
    on_checked: Callable[[], None],
) -> dict[int, Verdict]:
    recorded = {record.number: record for record in chosen}
    episodes = tuple(e for e in again.prepared.plan.episodes if e.number in recorded)
    verdicts: dict[int, Verdict] = {}

    def on_record(record: EpisodeRecord, _actions: Array | None, steps: Array | None) -> None:
        stored = kept[record.number].steps
        verdicts[record.number] = judge(recorded[record.number], record, stored, steps)
        on_checked()

    play(again.prepared, episodes, again.logs, on_record)
    return {number: verdicts[number] for number in sorted(verdicts)}


def _describe_step(step: int | None, recorded: Array | None, again: Array | None) -> str:
    if step is None:
        return "other actions"
    assert recorded is not None
    assert again is not None
    if step > min(len(recorded), len(again)):
        return f"{len(recorded)} steps recorded, {len(again)} here"
    one, other = recorded[step - 1], again[step - 1]
    if one["reward"] != other["reward"]:
        return f"from step {step} on (reward {one['reward']!s} recorded, {other['reward']!s} here)"
    names = [name for name in ("success", "terminated", "truncated") if one[name] != other[name]]
    words = ", ".join(f"{name} {_flag(one[name])} recorded" for name in names)
    return f"from step {step} on ({words}, otherwise here)"


def _flag(value: Any) -> str:
    return {-1: "not reported", 0: "no", 1: "yes"}[int(value)]


def _outcome(record: EpisodeRecord) -> str:
    return f"{'success' if record.success else 'no success'} ({record.end})"


def _are_close(recorded: Array | None, again: Array | None) -> bool:
    if recorded is None or again is None or len(recorded) != len(again):
        return False
    flags = all(
        np.array_equal(recorded[name], again[name])
        for name in ("success", "terminated", "truncated")
    )
    return flags and np.allclose(recorded["reward"], again["reward"], _RELATIVE, _ABSOLUTE)


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
