"""Columns: the episodes of several tasks with one seed, which may be easy in all of them. Pure."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

from envhub.results.statistics import Columns

Outcomes = Mapping[str, Sequence[tuple[int, int]]]
"""For each task the index and the outcome of episodes: 1 for a success; of pairs the difference."""
Groups = Mapping[str, Hashable]
"""What tasks have in common that share their seeds."""


def share_seeds(tasks: Sequence[str], groups: Groups) -> bool:
    """Whether two of these tasks have the same seeds."""
    named = [groups[task] for task in tasks if task in groups]
    return len(set(named)) < len(named)


def find_columns(outcomes: Outcomes, groups: Groups) -> Columns | None:
    """Return how the mean of the tasks' rates varies from seed to seed.

    Args:
        outcomes: Those of the tasks.
        groups: The groups of tasks that share their seeds.

    Returns:
        None if no two of the tasks share them.
    """
    played = {task: each for task, each in outcomes.items() if each}
    if not share_seeds([*played], groups):
        return None
    deviations: dict[Hashable, float] = defaultdict(float)
    for task in sorted(played):
        of_task = played[task]
        rate = sum(value for _, value in of_task) / len(of_task)
        for index, value in of_task:
            deviations[groups[task], index] += (value - rate) / (len(of_task) * len(played))
    return Columns(len(deviations), sum(sorted(each * each for each in deviations.values())))


def column_sums(outcomes: Outcomes, groups: Groups) -> list[Fraction]:
    """Return what each column adds to the mean over tasks, exactly."""
    played = {task: each for task, each in outcomes.items() if each}
    sums: dict[Hashable, Fraction] = defaultdict(Fraction)
    for task, of_task in played.items():
        for index, value in of_task:
            sums[groups[task], index] += Fraction(value, len(of_task) * len(played))
    return list(sums.values())


def column_means(outcomes: Outcomes) -> list[Fraction]:
    """Return the mean outcome of each column, for tests of its episodes as one; exactly.

    All tasks are taken to share their seeds, as at least one side of the comparison does.
    """
    sums = column_sums(outcomes, dict.fromkeys(outcomes, ""))
    return [len(sums) * each for each in sums]
