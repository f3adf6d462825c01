"""Which episodes are run. Pure: the same question gives the same plan."""

from collections.abc import Mapping
from dataclasses import dataclass

from envhub.errors import UsageError
from envhub.records import Episode
from envhub.types import Benchmark, Task


@dataclass(frozen=True, slots=True)
class Plan:
    """All episodes of a run."""

    suites: Mapping[str, tuple[str, ...]]
    """The tasks of each suite; one that stands in several is run once."""
    tasks: Mapping[str, Task]
    """With the horizons that are in force."""
    episodes: tuple[Episode, ...]
    per_task: int
    seed: int
    max_steps: int | None


def make_plan(
    benchmark: Benchmark,
    chosen: Mapping[str, tuple[Task, ...]],
    *,
    episodes: int | None = None,
    seed: int = 0,
    max_steps: int | None = None,
) -> Plan:
    """Plan the episodes of the chosen tasks.

    Episode k of a task has seed `seed + k` and initial state `k mod n`, whatever its suite.

    Args:
        benchmark: Whose tasks they are.
        chosen: The tasks by suite.
        episodes: For each task; the benchmark's own number unless said.
        seed: Of the first episode of each task.
        max_steps: A horizon instead of the tasks' own.
    """
    count = benchmark.episodes if episodes is None else episodes
    if count < 1:
        raise UsageError(f"--episodes must be at least 1, found {count}.")
    if not 0 <= seed <= 2**63 - 1 - count:
        raise UsageError(f"--seed must be a whole number from 0 on, found {seed}.")
    home: dict[str, str] = {}
    for suite, listed in chosen.items():
        for task in listed:
            home.setdefault(task.name, suite)
    tasks = {task.name: task for listed in chosen.values() for task in listed}
    planned: list[Episode] = []
    for name, task in tasks.items():
        for index in range(count):
            state = index % task.init_states if task.init_states else None
            number = len(planned)
            planned.append(Episode(number, home[name], name, index, seed + index, state))
    return Plan(
        suites={suite: tuple(task.name for task in listed) for suite, listed in chosen.items()},
        tasks={name: _limited(task, max_steps) for name, task in tasks.items()},
        episodes=tuple(planned),
        per_task=count,
        seed=seed,
        max_steps=max_steps,
    )


def _limited(task: Task, max_steps: int | None) -> Task:
    if max_steps is None:
        return task
    return Task(
        task.name, task.description, max_steps, task.init_states, task.success, dict(task.args)
    )
