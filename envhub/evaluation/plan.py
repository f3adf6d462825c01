"""Which episodes are run. Pure: the same request gives the same plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from envhub.declarations import Benchmark, Task
from envhub.errors import UnknownName, UsageError
from envhub.evaluation.latency import delays_of
from envhub.options import Delays
from envhub.records import Episode
from envhub.run_info import (
    MAX_EPISODES,
    LatencyPlanInfo,
    PerturbationInfo,
    PlanInfo,
    TaskInfo,
)
from envhub.seeding import DEFAULT_SEEDING, Seeding, make_seeds

_MAX_SEED = 2**63 - 1
"""The largest that can be sent to a worker."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All episodes of a run."""

    suites: Mapping[str, tuple[str, ...]]
    """The tasks of each suite; a task in several suites is run once."""
    tasks: Mapping[str, Task]
    """The tasks by name, with the horizons in effect."""
    episodes: tuple[Episode, ...]
    per_task: int
    seed: int
    seeding: Seeding
    max_steps: int | None
    part: bool = False
    """Whether the suites have further tasks, which the user left out."""
    instructions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The user's own texts, by task."""
    dimensions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Of suites that were made from others: which one, and what was changed."""

    latency: LatencyPlanInfo | None = None
    """How late the policy's actions are; None: the world waits for it."""
    perturbations: Mapping[str, PerturbationInfo] = field(default_factory=dict)
    """How the benchmark is changed."""
    delays: Delays | None = None
    """The latency as a rule for workers and policies; None where recorded actions are played."""

    def instruction(self, episode: Episode) -> str | None:
        """Return what the user tells the policy in an episode; None: the env's or the task's."""
        texts = self.instructions.get(episode.task)
        return texts[episode.index % len(texts)] if texts else None

    @property
    def retold(self) -> bool:
        """Whether a perturbation words instructions otherwise."""
        return any("instruction" in each.changes for each in self.perturbations.values())

    def info(self, reuse: Literal["reset", "rebuild"]) -> PlanInfo:
        """Return the plan as `run.json` has it.

        Args:
            reuse: Whether envs are kept between episodes, as the benchmark declares.
        """
        return PlanInfo(
            suites={suite: list(tasks) for suite, tasks in self.suites.items()},
            dimensions=dict(self.dimensions),
            part=self.part,
            episodes=self.per_task,
            seed=self.seed,
            seeding=self.seeding,
            max_steps=self.max_steps,
            reuse=reuse,
            instructions={task: list(texts) for task, texts in self.instructions.items()},
            latency=self.latency,
            perturbations=dict(self.perturbations),
            tasks={
                name: TaskInfo(
                    horizon=t.horizon,
                    success=t.success,
                    init_states=t.init_states,
                    description=t.description,
                    seeds_of=t.seeds_of,
                )
                for name, t in self.tasks.items()
            },
        )


def make_plan(
    benchmark: Benchmark,
    chosen: Mapping[str, tuple[Task, ...]],
    *,
    episodes: int | None = None,
    seed: int = 0,
    seeding: Seeding = DEFAULT_SEEDING,
    max_steps: int | None = None,
    instructions: Mapping[str, tuple[str, ...]] | None = None,
    latency: LatencyPlanInfo | None = None,
    perturbations: Mapping[str, PerturbationInfo] | None = None,
) -> Plan:
    """Plan the episodes of the chosen tasks.

    Episode k of a task has the task's k-th seed and initial state `k mod n`, whatever its suite.

    Args:
        benchmark: The benchmark of the tasks.
        chosen: The tasks by suite.
        episodes: Episodes per task; None: the benchmark's own number.
        seed: The seed that those of the episodes are made of.
        seeding: Whether each task has seeds of its own, or all have `seed`, `seed + 1`, ...
        max_steps: Horizon of every task; None: the tasks' own.
        instructions: The user's own texts, by task; episode k is told text `k mod n`.
        latency: How late the policy's actions are.
        perturbations: How the benchmark is changed.
    """
    count = benchmark.episodes if episodes is None else episodes
    if count < 1:
        raise UsageError(f"--episodes must be at least 1, found {count}.")
    total = count * len({task.name for listed in chosen.values() for task in listed})
    if total > MAX_EPISODES:
        raise UsageError(
            f"--episodes {count} are {total:,} episodes in all, and a run has at most "
            f"{MAX_EPISODES:,}: choose fewer, or fewer tasks."
        )
    if not 0 <= seed <= _MAX_SEED - count:
        raise UsageError(
            f"--seed must be a whole number from 0 to {_MAX_SEED - count}, so that every episode "
            f"has one, found {seed}."
        )
    first_suite: dict[str, str] = {}
    for suite, listed in chosen.items():
        for task in listed:
            first_suite.setdefault(task.name, suite)
    tasks = {task.name: task for listed in chosen.values() for task in listed}
    told = {name: texts for name, texts in (instructions or {}).items() if name in tasks}
    planned: list[Episode] = []
    for name, task in tasks.items():
        for index, of_episode in enumerate(make_seeds(seeding, seed, task.seeds_of or name, count)):
            state = index % task.init_states if task.init_states else None
            number = len(planned)
            planned.append(Episode(number, first_suite[name], name, index, of_episode, state))
    return Plan(
        suites={suite: tuple(task.name for task in listed) for suite, listed in chosen.items()},
        dimensions={
            suite: found for suite, found in benchmark.dimensions.items() if suite in chosen
        },
        part=any(len(listed) < len(benchmark.suites[suite]) for suite, listed in chosen.items()),
        tasks={name: limited(task, max_steps) for name, task in tasks.items()},
        episodes=tuple(planned),
        per_task=count,
        seed=seed,
        seeding=seeding,
        max_steps=max_steps,
        instructions=told,
        latency=latency,
        perturbations=perturbations or {},
        delays=delays_of(latency),
    )


def limited(task: Task, max_steps: int | None) -> Task:
    """Return the task with another horizon, if one is given."""
    if max_steps is None:
        return task
    return replace(task, horizon=max_steps)


EVERY = "all"
"""The suite that stands for every suite."""


def select(
    benchmark: Benchmark, suites: Iterable[str] = (), tasks: Iterable[str] = ()
) -> dict[str, tuple[Task, ...]]:
    """Select tasks by suite, in the benchmark's order.

    Args:
        benchmark: The benchmark to select from.
        suites: Names or comma lists of names; none: the benchmark's default, or any suite if
            tasks are named; `all`: every suite.
        tasks: Names or comma lists of names; none: all tasks of the suites. `suite/task` is the
            task of that suite, and `*`, `?` and `[...]` stand for characters as in a shell.

    Raises:
        UnknownName: No suite or task has such a name; suggests similar ones.
        UsageError: A name is empty.
    """
    suite_names, task_names = _names(suites, "suite"), _names(tasks, "task")
    chosen = _suites(benchmark, suite_names)
    if not task_names:
        return {suite: benchmark.suites[suite] for suite in chosen}
    if not suite_names:
        chosen = (*chosen, *(suite for suite in benchmark.suites if suite not in chosen))
    selected: dict[str, set[str]] = {suite: set() for suite in chosen}
    for name in task_names:
        hits = _find_tasks(benchmark, chosen, name, once=not suite_names)
        if not hits:
            noun = f"task of {', '.join(chosen)}" if suite_names else "task"
            raise UnknownName(noun, name, _known(benchmark, chosen, full="/" in name))
        for suite, task in hits:
            selected[suite].add(task)
    return {
        suite: tuple(task for task in benchmark.suites[suite] if task.name in selected[suite])
        for suite in chosen
        if selected[suite]
    }


def _find_tasks(
    benchmark: Benchmark, suites: Iterable[str], name: str, *, once: bool
) -> list[tuple[str, str]]:
    """Return the suites and tasks that a name means.

    Args:
        benchmark: The benchmark to select from.
        suites: The suites to look in.
        name: `task` or `suite/task`, perhaps with `*`, `?` and `[...]`.
        once: Whether a task without its suite is taken only in the first one that has it.
    """
    suite_pattern, slash, task_pattern = name.rpartition("/")
    hits = [
        (suite, task.name)
        for suite in suites
        if not slash or fnmatchcase(suite, suite_pattern)
        for task in benchmark.suites[suite]
        if fnmatchcase(task.name, task_pattern)
    ]
    if slash or not once:
        return hits
    first: dict[str, str] = {}
    for suite, task in hits:
        first.setdefault(task, suite)
    return [(suite, task) for task, suite in first.items()]


def _known(benchmark: Benchmark, suites: Iterable[str], *, full: bool) -> set[str]:
    tasks = ((suite, task.name) for suite in suites for task in benchmark.suites[suite])
    return {f"{suite}/{task}" if full else task for suite, task in tasks}


def _suites(benchmark: Benchmark, named: tuple[str, ...]) -> tuple[str, ...]:
    if EVERY in named and EVERY not in benchmark.suites:
        return tuple(benchmark.suites)
    for name in named:
        if name not in benchmark.suites:
            suites = [*benchmark.suites, EVERY]
            advice = f"The suites are {', '.join(suites)}." if len(suites) <= 12 else ""
            raise UnknownName("suite", name, suites, advice=advice)
    return named or benchmark.default or tuple(benchmark.suites)


def _names(texts: Iterable[str], kind: str) -> tuple[str, ...]:
    """Split comma lists into names, each once; a single text is one list."""
    names: list[str] = []
    for text in (texts,) if isinstance(texts, str) else texts:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise UsageError(f"The name of a {kind} is empty: name one, or leave --{kind} out.")
        names.extend(parts)
    return tuple(dict.fromkeys(names))
