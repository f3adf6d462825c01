"""What a run's intervals rest on, in sentences. Pure."""

from envhub.results.columns import share_seeds
from envhub.results.summary import Summary
from envhub.run_info import RunInfo
from envhub.text import pluralize

_DRAWS_ALONE = (
    "The policy draws random numbers that no seed reaches: played again, these episodes would go "
    "otherwise."
)


def describe_evidence(info: RunInfo, summary: Summary) -> list[str]:
    """Return a sentence for each reason to read a run's rates and intervals with care."""
    found = (
        describe_incomplete(info, summary),
        describe_repeats(summary),
        describe_shared_seeds(info, summary),
        None if info.reproducible else _DRAWS_ALONE,
    )
    return [sentence for sentence in found if sentence is not None]


def describe_incomplete(info: RunInfo, summary: Summary) -> str | None:
    """Say that an incomplete run is no random sample; None: it is complete."""
    if summary.ended >= info.plan.planned:
        return None
    return (
        f"Only {describe_played(info, summary)} have ended. Those that end first are no random "
        "sample: short episodes come before long ones. No interval allows for that."
    )


def describe_repeats(summary: Summary) -> str | None:
    """Say how many episodes repeat another; None: none does."""
    line = summary.overall
    repeats = line.n - line.n_distinct
    if not repeats:
        return None
    verb = "repeats another of its task" if repeats == 1 else "repeat another of their task"
    return (
        f"{repeats} of {pluralize(line.n, 'episode')} {verb}, with the same first observation, "
        f"actions and rewards: intervals count {line.n_distinct}."
    )


def describe_shared_seeds(info: RunInfo, summary: Summary) -> str | None:
    """Say why intervals are wider where tasks share their seeds; None: they do not."""
    rated = [line.task for line in summary.tasks if line.task is not None and line.rate is not None]
    if not share_seeds(rated, info.plan.seed_groups):
        return None
    how = " (--seeding shared)" if info.plan.seeding == "shared" else ""
    return (
        f"Tasks have the same seeds{how}, and one seed may be easy in all of them: the intervals "
        "of several tasks count seeds, so they are wider."
    )


def describe_played(info: RunInfo, summary: Summary) -> str:
    """Return how many of the planned episodes have ended, and of the tasks if not all have."""
    planned, tasks = info.plan.planned, len(info.plan.tasks)
    begun = sum(each.n + each.errors > 0 for each in summary.tasks)
    text = f"{summary.ended} of {pluralize(planned, 'episode')}"
    return text if begun == tasks else f"{text}, {begun} of {pluralize(tasks, 'task')},"
