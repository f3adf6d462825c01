"""Whether two runs played the same episodes, and if not, how they differ. Pure."""

from collections.abc import Mapping
from typing import Any

from envhub.errors import UsageError

_SHOWN = 3
"""Differences of a kind that an error names."""

_FILES = "the benchmark's files"


def check_comparable(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    """Refuse two runs that did not play the same episodes.

    They may have another number of episodes and other tasks: what they have in common counts.

    Args:
        a: The content of one run's `run.json`.
        b: The content of the other's.

    Raises:
        UsageError: They differ in something that changes an episode; names what, with both values.
    """
    first, second = _conditions(a), _conditions(b)
    differing = [
        _describe(words, first[words], second[words])
        for words in first
        if first[words] != second[words]
    ]
    first_tasks, second_tasks = a["plan"]["tasks"], b["plan"]["tasks"]
    common = [task for task in first_tasks if task in second_tasks]
    if any(first_tasks[task] != second_tasks[task] for task in common):
        own = ({task: tasks[task] for task in common} for tasks in (first_tasks, second_tasks))
        differing.append(_describe("tasks", *own))
    if differing:
        raise UsageError(
            f"The runs differ in {'; and in '.join(differing)}. --unpaired compares them all the "
            "same, as different experiments."
        )


def _conditions(info: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for an episode to be the same in two runs, by the words for it."""
    benchmark, plan = info["benchmark"], info["plan"]
    assets = benchmark.get("assets", {})
    return {
        "the benchmark": benchmark["name"],
        _FILES: benchmark["files"],
        "--env-arg": {k: v for k, v in benchmark["env_args"].items() if k not in assets},
        "the content of the assets": assets,
        "ENVHUB_PLUGINS": benchmark["plugins"],
        "conventions": benchmark.get("conventions", {}),
        "LeRobot's conventions": benchmark.get("lerobot_conventions", {}),
        "--seed": plan["seed"],
        "the reuse of envs": plan["reuse"],
        "packages": info["runtime"]["packages"],
    }


def _describe(words: str, a: Any, b: Any) -> str:
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return f"{words} ({_shown(a)}, {_shown(b)})"
    names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
    listed = [
        name if words == _FILES else _describe_entry(name, a.get(name), b.get(name))
        for name in names[:_SHOWN]
    ]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{words} ({'; '.join(listed)}{more})"


def _describe_entry(name: str, a: Any, b: Any) -> str:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        keys = [key for key in a if a[key] != b.get(key)]
        return ", ".join(f"{name} {key} {_shown(a[key])}, {_shown(b.get(key))}" for key in keys)
    return f"{name} {_shown(a)}, {_shown(b)}"


def _shown(value: object) -> str:
    return "none" if value is None or value == [] else str(value)
