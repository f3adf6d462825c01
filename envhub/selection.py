"""Which suites and tasks of a benchmark are meant. Pure."""

from collections.abc import Iterable

from envhub.errors import UnknownName
from envhub.types import Benchmark, Task

EVERY = "all"
"""The suite that stands for every suite."""


def select(
    benchmark: Benchmark, suites: Iterable[str] = (), tasks: Iterable[str] = ()
) -> dict[str, tuple[Task, ...]]:
    """The tasks that are meant, by suite, in the benchmark's order.

    Args:
        benchmark: Whose.
        suites: Names, each perhaps a comma list; none means the benchmark's default, or, where
            tasks are named, wherever those are; `all` means every suite.
        tasks: Names, each perhaps a comma list; none means all of the suites.

    Raises:
        UnknownName: There is no such suite or task; says which are close.
    """
    named, wanted = _names(suites), _names(tasks)
    chosen = _suites(benchmark, named)
    if not wanted:
        return {suite: benchmark.suites[suite] for suite in chosen}
    if not named:
        chosen = (*chosen, *(suite for suite in benchmark.suites if suite not in chosen))
    known = {task.name for suite in chosen for task in benchmark.suites[suite]}
    for name in wanted:
        if name not in known:
            where = f"task of {', '.join(chosen)}" if named else "task"
            raise UnknownName(where, name, known)
    found: dict[str, tuple[Task, ...]] = {}
    left = set(wanted)
    for suite in chosen:
        hits = tuple(task for task in benchmark.suites[suite] if task.name in left)
        if hits:
            found[suite] = hits
        if not named:  # a task stands once, in the first suite that has it
            left -= {task.name for task in hits}
    return found


def _suites(benchmark: Benchmark, named: tuple[str, ...]) -> tuple[str, ...]:
    if EVERY in named and EVERY not in benchmark.suites:
        return tuple(benchmark.suites)
    for name in named:
        if name not in benchmark.suites:
            raise UnknownName("suite", name, {*benchmark.suites, EVERY})
    return named or benchmark.default or tuple(benchmark.suites)


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    """Names out of comma lists, each once; a single text is one list."""
    listed = (texts,) if isinstance(texts, str) else texts
    parts = (part.strip() for text in listed for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))
