"""What two contents of `run.json` must agree in, and how they differ. Pure.

Which fields these are is said where they are declared, in `envhub.run_info`.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from envhub.errors import RunDirectoryError, UsageError, one_line
from envhub.results.repeat import repeat_command
from envhub.run_info import RunInfo, agreeing, canonical
from envhub.text import pluralize

_SHOWN = 3
"""Differences of a kind that an error names."""
_MOST_TEXT = 80
"""Characters of a value that an error shows."""

_HASHES = "the benchmark's files"
"""Whose values say nothing to people."""


def check_same(before: RunInfo, now: RunInfo, directory: Path) -> None:
    """Refuse to continue a run with another question than it was begun with.

    Args:
        before: What `run.json` says.
        now: What it would say now; `evaluation.describe.foresee` says what is not known yet as
            `before` does.
        directory: Of the run.

    Raises:
        RunDirectoryError: The question is another; names the first difference, with both values.
    """
    if before.runtime.worker != now.runtime.worker:
        raise RunDirectoryError(
            f"{directory} was begun with EnvHub {before.envhub}, whose workers play episodes "
            f"otherwise than those of EnvHub {now.envhub}. Continue it with EnvHub "
            f"{before.envhub}, or start a new run in another directory."
        )
    old = {item.words: item.value for item in agreeing(before, "resume")}
    for _, words, value in agreeing(now, "resume"):
        if words in old and canonical(old[words]) != canonical(value):
            raise _difference(words, old[words], value, directory)


_OF_A_MACHINE = ("shard", "benchmark.env_args", "benchmark.env_vars", "policy.runtime.key")
"""What must agree to continue a run, and may differ between machines that play it together."""


def check_mergeable(a: RunInfo, b: RunInfo, place_a: Path, place_b: Path) -> None:
    """Refuse two runs that do not play the same plan with the same policy.

    Raises:
        RunDirectoryError: They do not; names the first difference, with both values.
    """
    if a.runtime.worker != b.runtime.worker:
        raise RunDirectoryError(
            f"{place_a} was played by EnvHub {a.envhub} and {place_b} by EnvHub {b.envhub}, whose "
            "workers play episodes otherwise. Play all shards with one version."
        )
    difference = find_difference(a, b)
    if difference is not None:
        raise RunDirectoryError(
            f"{place_a} and {place_b} do not belong together: they differ in {difference}. Merge "
            "runs of one command only."
        )


def find_difference(a: RunInfo, b: RunInfo) -> str | None:
    """Say in what two machines differ that are to play one run; None: in nothing that counts."""
    found = [
        [
            *(item for item in agreeing(info, "resume") if item.path not in _OF_A_MACHINE),
            *(item for item in agreeing(info, "compare") if item.path == "benchmark.env_args"),
        ]
        for info in (a, b)
    ]
    second = {(item.path, item.words): item.value for item in found[1]}
    for path, words, value in found[0]:
        other = second.get((path, words))
        if canonical(value) != canonical(other):
            return describe_values(words, value, other)
    return None


def _difference(words: str, old: Any, new: Any, directory: Path) -> RunDirectoryError:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        changed = {*map(canonical, old.items())} ^ {*map(canonical, new.items())}
        key = min(json.loads(item)[0] for item in changed)
        words, old, new = f"{words} {one_line(key)}", old.get(key), new.get(key)
    advice = "Give the same" if words.startswith("--") else "Restore it"
    return RunDirectoryError(
        f"The {words} that {directory} was begun with is {shorten(old)}, and now it is "
        f"{shorten(new)}. {advice}, or start a new run in another directory."
    )


def shorten(value: object) -> str:
    """Return a value as a line of an error shows it."""
    if value is None:
        return "none"
    text = one_line(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."


CONDITIONS = {"latency": "plan.latency", "perturb": "plan.perturbations"}
"""What `--across` names, and where `run.json` has it."""


def check_comparable(a: RunInfo, b: RunInfo, across: Collection[str] = ()) -> None:
    """Refuse two runs that did not play the same episodes.

    They may have another number of episodes and other tasks: what they have in common counts.

    Args:
        a: A run's content.
        b: Another's.
        across: The conditions, of `CONDITIONS`, in which they may differ.

    Raises:
        UsageError: They differ in something that changes an episode; names what, with both values.
    """
    second = {item.path: item.value for item in agreeing(b, "compare")}
    differing = [
        describe_values(words, value, second[path])
        for path, words, value in agreeing(a, "compare")
        if value != second[path] and path not in {CONDITIONS[name] for name in across}
    ]
    common = [task for task in a.plan.tasks if task in b.plan.tasks]
    own = [{task: info.plan.tasks[task].rules for task in common} for info in (a, b)]
    if own[0] != own[1]:
        differing.append(describe_values("task", *own))
    told = [{task: info.plan.instructions.get(task) for task in common} for info in (a, b)]
    if told[0] != told[1]:
        differing.append(describe_values("--instructions", *told))
    if differing:
        raise UsageError(
            f"The runs differ in {'; and in '.join(differing)}. --unpaired compares them all the "
            f"same, as different experiments.{_advise_seeding(a, b)}"
        )


def describe_across(a: RunInfo, b: RunInfo, across: Collection[str]) -> list[str]:
    """Say in which of the conditions that may differ two runs do."""
    first, second = ({i.path: i for i in agreeing(info, "compare")} for info in (a, b))
    paths = [CONDITIONS[name] for name in across]
    differing = [(first[path], second[path]) for path in paths if first[path] != second[path]]
    return [
        f"Paired across {describe_values(one.words, one.value, other.value)}."
        for one, other in differing
    ]


def _advise_seeding(a: RunInfo, b: RunInfo) -> str:
    """Return the sentence that leads to two runs of the same seeds, if theirs were made apart."""
    if a.plan.seeding == b.plan.seeding:
        return ""
    plan = replace(b.plan, seed=a.plan.seed, seeding=a.plan.seeding)
    command = repeat_command(replace(b, plan=plan))
    if command is None:
        return f" Evaluate B's policy with seeding={a.plan.seeding!r} for pairs."
    return f" For pairs play B with the seeds of A: {command}"


def describe_told_apart(a: RunInfo, b: RunInfo) -> str | None:
    """Say that two policies were told different texts by their own providers; None: they were not.

    What a provider tells its policy belongs to the policy, as its weights do.
    """
    tasks = [task for task in a.plan.tasks if task in b.plan.tasks]
    own = a.policy.instructions, b.policy.instructions
    differ = [task for task in tasks if own[0].get(task) != own[1].get(task)]
    if not differ:
        return None
    first = differ[0]
    texts = [json.dumps(one[first]) if first in one else "the benchmark's text" for one in own]
    return (
        f"The policies were told different instructions in {len(differ)} of "
        f"{pluralize(len(tasks), 'task')}; {first}: {texts[0]} to A, {texts[1]} to B."
    )


def describe_values(words: str, a: Any, b: Any) -> str:
    """Return the words for what two runs differ in, with both values."""
    plain = words.startswith("--")
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return f"{words if plain else f'the {words}'} ({_shown(a)}, {_shown(b)})"
    named = words if plain else f"the {words}s"
    names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
    listed = [
        name if named == _HASHES else _describe_entry(name, a.get(name), b.get(name))
        for name in names[:_SHOWN]
    ]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{named} ({'; '.join(listed)}{more})"


def _describe_entry(name: str, a: Any, b: Any) -> str:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        keys = [key for key in a if a[key] != b.get(key)]
        return ", ".join(f"{name} {key} {_shown(a[key])}, {_shown(b.get(key))}" for key in keys)
    return f"{name} {_shown(a)}, {_shown(b)}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping) and "strength" in value:  # of a perturbation that only one has
        value = value["strength"]
    return "none" if value is None or value == [] else str(value)
