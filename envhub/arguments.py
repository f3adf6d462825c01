"""The arguments of Python functions, checked as the command line checks its options."""

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, runtime_checkable

from envhub.declarations import MAX_DESCRIPTION
from envhub.errors import UsageError
from envhub.files import expand_home
from envhub.options import RUNTIMES, Argument, Limits, Processes
from envhub.values import find_value_problem, has_surrogate

MAX_WORKERS = 4096
MAX_PROCESSES = 256
"""Of a policy."""

C = TypeVar("C", bound=str)


@runtime_checkable
class HubConfig(Protocol):
    """A config of LeRobot's for an env on the Hub, `HubEnvConfig`, whichever version it is of."""

    @property
    def hub_path(self) -> str:
        """The reference: `owner/repo@<commit>:env.py`."""


def check_reference(value: object, name: str = "ref") -> str:
    """Return a reference or the place of a policy as text; a path is written with `./`."""
    if isinstance(value, os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str):
            return text if text.startswith("/") else f"./{text}"
    if not isinstance(value, str):
        raise _wrong(name, "text or a path", value)
    return value


def check_policy(value: object) -> Any:
    """Return a policy: an object, or the text that names one."""
    if isinstance(value, str | os.PathLike):
        return check_reference(value, "policy")
    if isinstance(value, type):
        raise UsageError(
            f"policy must be an object, found the class {value.__name__}: make one of it."
        )
    if not callable(getattr(value, "act", None)):
        raise _wrong("policy", "text, a path or an object with act(obs, episodes)", value)
    return value


def check_whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return a whole number, also one of another library's types."""
    limit = f"of at least {low}" if high is None else f"from {low} to {high}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        raise _wrong(name, f"a whole number {limit}", value)
    return number


def check_workers(value: object) -> int | None:
    """Return the number of workers; None for as many as the machine allows."""
    if value is None or value == "auto":
        return None
    if isinstance(value, str):
        raise _wrong("workers", "a whole number, None or 'auto'", value)
    return check_whole("workers", value, 0, MAX_WORKERS)


def check_processes(value: object) -> Processes:
    """Return the number of a policy's processes."""
    if value == "auto":
        return "auto"
    if isinstance(value, str):
        raise _wrong("policy_processes", "a whole number or 'auto'", value)
    return check_whole("policy_processes", value, 1, MAX_PROCESSES)


def check_names(name: str, value: object) -> tuple[str, ...]:
    """Return names of suites or tasks, given as one text or several."""
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, Iterable):
        raise _wrong(name, "text or a list of texts", value)
    names = tuple(listed)
    for one in names:
        if not isinstance(one, str):
            raise _wrong(name, "text or a list of texts", one)
        if not one.strip(", "):
            raise UsageError(
                f"{name} has an empty name: name a {name.removesuffix('s')}, or leave it out."
            )
    return names


def check_values(name: str, value: object) -> dict[str, Argument]:
    """Return arguments by their names, as `--env-arg` and `--policy-arg` give them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping of names to values", value)
    for key, item in value.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise _wrong(f"{name} has a key that", "a name", key)
        if find_value_problem(item) is not None:
            raise _wrong(f"{name}[{key!r}]", _VALUE, item)
    return dict(value)


def as_config(name: str, value: object) -> Argument:
    """Return a config as data: of a mapping, a dataclass or a namespace, and of what they hold."""
    match value:
        case Enum():
            return as_config(name, value.value)
        case os.PathLike():
            return str(os.fspath(value))
        case list() | tuple():
            return [as_config(f"{name}[{index}]", item) for index, item in enumerate(value)]
        case Mapping():
            items = {str(key): item for key, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            items = {field.name: getattr(value, field.name) for field in fields(value)}
        case SimpleNamespace():
            items = vars(value)
        case _ if find_value_problem(value) is None:
            return value  # type: ignore[return-value]
        case _:
            raise _wrong(name, f"{_VALUE}, or a dataclass or a namespace", value)
    return {key: as_config(f"{name}.{key}", item) for key, item in items.items()}


def check_instructions(name: str, value: object) -> dict[str, tuple[str, ...]]:
    """Return texts by task; a single text is a list of one.

    Args:
        name: Of the argument, or of the file.
        value: A mapping of tasks to a text or a list of texts.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, 'a mapping of tasks to texts, as in {"reach": "Reach."}', value)
    if not value:
        raise UsageError(f"{name} names no task: word at least one, or leave it out.")
    found: dict[str, tuple[str, ...]] = {}
    for task, item in value.items():
        if not isinstance(task, str):
            raise _wrong(f"{name} has a key that", "the name of a task", task)
        texts = (item,) if isinstance(item, str) else item
        if not isinstance(texts, list | tuple) or not texts:
            raise _wrong(f"{name}, {task!r}", "a text or a list of texts", item)
        for text in texts:
            if not isinstance(text, str) or not text.strip() or has_surrogate(text):
                raise _wrong(f"{name}, {task!r}", "text that is not empty", text)
            if len(text) > MAX_DESCRIPTION:
                raise UsageError(
                    f"{name}, {task!r} has a text of {len(text):,} characters; {MAX_DESCRIPTION:,} "
                    "at most are told."
                )
        found[task] = tuple(texts)
    return found


def check_limits(value: object) -> Limits:
    """Return time limits."""
    if value is None:
        return Limits()
    if not isinstance(value, Limits):
        raise _wrong("limits", "a Limits, as in Limits(step=10)", value)
    for field in fields(Limits):
        seconds = getattr(value, field.name)
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not number or not 0 < seconds < math.inf:
            raise _wrong(f"limits.{field.name}", "a positive number of seconds", seconds)
    return value


def check_path(name: str, value: object) -> Path | None:
    """Return a path of this machine; `~` is expanded."""
    if value is None:
        return None
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _wrong(name, "text or a path", value)
    if not value.strip() or "\0" in value:
        raise _wrong(name, "a path", value)
    return expand_home(value)


def check_choice(name: str, value: C, choices: tuple[str, ...]) -> C:
    """Return one of some texts."""
    if value not in choices:
        raise _wrong(name, f"one of {', '.join(choices)}", value)
    return value


def check_runtime(value: object) -> str:
    """Return a choice of the interpreter; its names are those of a plugin's runtimes too."""
    if not isinstance(value, str):
        raise _wrong("runtime", f"{', '.join(RUNTIMES)} or the name of a plugin's runtime", value)
    return value


def check_flag(name: str, value: object) -> bool:
    """Return a flag: True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool):
        raise _wrong(name, "True or False", value)
    return value


def check_function(name: str, value: Callable[..., object] | None) -> None:
    """Refuse what cannot be called."""
    if value is not None and not callable(value):
        raise _wrong(name, "a function", value)


_VALUE = "a finite number, text, a bool or None, or a list or mapping of these"


def _wrong(name: str, expected: str, found: object) -> UsageError:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return UsageError(f"{name} must be {expected}, found {shown}.")
