"""The verdict of an episode that was played again: how it went, compared with its record. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from envhub.evaluation.replay import first_difference
from envhub.records import EpisodeRecord
from envhub.run_info import BenchmarkInfo, MachineInfo, RunInfo
from envhub.wire.values import Array

VerdictName = Literal[
    "tampered", "missing", "different", "drifted", "equivalent", "not checked", "identical"
]
ORDER: tuple[VerdictName, ...] = (
    "tampered", "missing", "different", "drifted", "equivalent", "not checked", "identical",
)  # fmt: skip
"""The verdicts, the worst first."""
AGAIN = "its error occurred again"
"""The reason of an episode whose error is confirmed."""
BEGINS_OTHERWISE = "it begins with another observation than recorded"
"""The reason of an episode whose first observation, or initial state, is not the recorded one."""
ENDS_OTHERWISE = "its rewards and flags are the same, and it ends in another state of the env"
"""The reason of an episode whose physics differ where no reward shows it."""
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
"""How far rewards of equivalent episodes are apart; other kernels of OpenBLAS gave 2e-16."""
_ACTION = 1e-3
"""How far actions of one policy are apart on two machines; batches of 8 rows gave 1e-5."""

Sides = tuple[str, str]
"""What follows a value of the one, and of the other."""


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


def judge(
    recorded: EpisodeRecord,
    again: EpisodeRecord,
    recorded_steps: Array | None,
    steps: Array | None,
) -> Verdict:
    """Compare an episode with how it went again."""
    found = _judge_steps(recorded, again, recorded_steps, steps)
    if ORDER.index(found.verdict) <= ORDER.index("drifted") or begins_as_recorded(recorded, again):
        return found
    reason = ". ".join(filter(None, (BEGINS_OTHERWISE, found.reason)))
    return replace(found, verdict="drifted", reason=reason)


def judge_actions(
    found: Verdict,
    recorded: EpisodeRecord,
    again: EpisodeRecord,
    recorded_actions: Array | None,
    actions: Array | None,
) -> Verdict:
    """Compare also what a policy chose: where rewards are sparse, other actions score the same.

    Args:
        found: The verdict of the episode's steps.
        recorded: The episode as it was recorded.
        again: The same one as the policy played it again.
        recorded_actions: The actions of the first.
        actions: Those of the second.
    """
    if found.verdict not in ("drifted", "equivalent") or recorded_actions is None:
        return found
    step = _first_other_action(recorded_actions, actions)
    if step == 1 and begins_as_recorded(recorded, again):
        reason = "the policy saw the same, and its first action is another one"
        return replace(found, verdict="different", reason=reason, step=1)
    if step is not None and found.verdict == "equivalent":
        reason = f"the policy acts otherwise from step {step} on"
        return replace(found, verdict="drifted", reason=reason, step=step)
    return found


def _first_other_action(recorded: Array, actions: Array | None) -> int | None:
    """Return the first step whose action is not the same but for the last digits."""
    if actions is None or recorded.shape[1:] != actions.shape[1:]:
        return 1
    count = min(len(recorded), len(actions))
    one, other = (p[:count].reshape(count, -1).astype(np.float64) for p in (recorded, actions))
    close = np.isclose(one, other, rtol=_ACTION, atol=_ACTION, equal_nan=True).all(axis=1)
    return None if close.all() else int(np.argmin(close)) + 1


def begins_as_recorded(recorded: EpisodeRecord, again: EpisodeRecord) -> bool:
    """Whether the first observation is the recorded one, if one is recorded."""
    due = recorded.first_observation, recorded.first_leaves
    return due[0] is None or due == (again.first_observation, again.first_leaves)


def find_denied_repeats(
    recorded: Mapping[int, EpisodeRecord], again: Iterable[EpisodeRecord]
) -> dict[int, Verdict]:
    """Find episodes that repeat each other here, and by their records do not.

    Another machine may draw other pictures, but not equal ones of what differed.

    Args:
        recorded: The episodes as they were recorded, by number.
        again: The same ones as they were played again.
    """
    found: dict[int, Verdict] = {}
    seen: dict[Hashable, EpisodeRecord] = {}
    for one in sorted(again, key=lambda each: each.number):
        then = recorded[one.number]
        if then.first_observation is None or one.first_observation is None:
            continue
        key = (one.task, then.trace, one.first_observation, one.first_leaves, then.description)
        other = seen.setdefault(key, then)
        if other.first_observation != then.first_observation:
            reason = f"here it repeats episode {other.episode}, and by its record it does not"
            found[one.number] = Verdict(then.task, then.episode, "different", reason)
    return found


def _judge_steps(
    recorded: EpisodeRecord,
    again: EpisodeRecord,
    recorded_steps: Array | None,
    steps: Array | None,
) -> Verdict:
    def verdict(name: VerdictName, reason: str = "", step: int | None = None) -> Verdict:
        return Verdict(recorded.task, recorded.episode, name, reason, step)

    if recorded.error is not None:
        return verdict(*_judge_error(recorded, again, recorded_steps, steps))
    if again.error is not None:
        return verdict("different", f"here an error ended it: {again.error.message}")
    if again.trace == recorded.trace:
        for name in ("out_of_bounds", "description"):
            one, other = getattr(recorded, name), getattr(again, name)
            if one != other:
                return verdict("tampered", f"its {name} is {one}, and here it is {other}")
        if recorded.end_state is not None and again.end_state != recorded.end_state:
            return verdict("drifted", ENDS_OTHERWISE)
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


def _judge_error(
    recorded: EpisodeRecord,
    again: EpisodeRecord,
    recorded_steps: Array | None,
    steps: Array | None,
) -> tuple[VerdictName, str, int | None]:
    """Compare the steps before an error; after them the last action was repeated to the end.

    The action that met the error is not stored, so an error that does not occur again may still
    have been one.
    """
    assert recorded.error is not None
    count = recorded.steps
    if again.steps < count:
        how = f"an error ended it: {again.error.message}" if again.error else _outcome(again)
        reason = f"an error ended it after {count} steps; here after {again.steps}: {how}"
        return "different", reason, again.steps + 1
    if again.error is None and again.steps == count:
        return "different", f"here it ended without an error: {_outcome(again)}", count
    begun = None if steps is None else steps[:count]
    step = first_difference(recorded_steps, begun)
    if step is not None and not _are_close(recorded_steps, begun):
        return "drifted", _describe_step(step, recorded_steps, begun), step
    if recorded.error.where == "policy":
        return "not checked", "an error of the policy ended it, which its actions do not show", None
    same = again.error is not None and again.error.type == recorded.error.type
    if same and again.steps == count:
        return "not checked", AGAIN, None
    return "not checked", "the error did not occur again", None


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


def compare_machines(
    recorded: RunInfo, here: RunInfo, sides: Sides = ("recorded", "here")
) -> Iterable[str]:
    """Yield what the last bits of a result can depend on, and differs from the run's machine."""
    told = (_compare_machine(machine, here.machine, sides) for machine in recorded.all_machines)
    yield from dict.fromkeys(chain.from_iterable(told))
    yield from _compare_plugins(recorded.benchmark, here.benchmark, sides)
    yield from _compare_packages(recorded.runtime.packages, here.runtime.packages, sides)
    old, new = recorded.policy.runtime, here.policy.runtime
    if old is not None and new is not None:  # the policy itself acts
        yield from _compare_packages(old.packages, new.packages, sides, " of the policy")
    if recorded.runtime.python != here.runtime.python:
        yield _told("Python", recorded.runtime.python, here.runtime.python, sides)


def _compare_machine(
    recorded: MachineInfo | None, here: MachineInfo | None, sides: Sides
) -> Iterable[str]:
    if recorded is None:
        yield "the run does not say what machine it was made on"
        return
    for name in ("arch", "cpu", "flags", "libc", "openblas", "gl"):
        old, new = getattr(recorded, name), getattr(here, name)
        if old != new and None not in (old, new):
            yield _told(name, _words(old), _words(new), sides)


def _compare_packages(
    recorded: Mapping[str, str], here: Mapping[str, str], sides: Sides, whose: str = ""
) -> Iterable[str]:
    for name in sorted({*recorded, *here}):
        old, new = recorded.get(name, "none"), here.get(name, "none")
        if old != new:
            yield _told(f"{name}{whose}", old, new, sides)


def _compare_plugins(recorded: BenchmarkInfo, here: BenchmarkInfo, sides: Sides) -> Iterable[str]:
    if recorded.kind == here.kind == "plugin" and recorded.files != here.files:
        old, new = recorded.files, here.files
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        told = f"{recorded.package} {sides[0]}, {here.package} {sides[1]}"
        yield f"{told} ({shown})"


def _told(name: str, old: str, new: str, sides: Sides) -> str:
    return f"{name} {old} {sides[0]}, {new} {sides[1]}"


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
