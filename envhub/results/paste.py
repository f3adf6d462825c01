"""A run in words: the line to paste, the header, and what its intervals rest on. Pure."""

import json

from envhub.conventions import contrast
from envhub.options import Argument
from envhub.results.statistics import share_seeds
from envhub.results.summary import Line, Summary
from envhub.run_info import OutlierInfo, PlanInfo, PolicyInfo, RunInfo
from envhub.text import pluralize
from envhub.types import Outlier

_DIGEST = 12
"""Hex digits of a protocol that are shown: as many as people paste of a commit."""


def paste_line(info: RunInfo, summary: Summary) -> str:
    """Return one line for a paper or an issue.

    Args:
        info: The content of `run.json`.
        summary: The results.
    """
    line = summary.overall
    parts = [
        info.benchmark.ref,
        f"policy {describe_policy(info.policy)}",
        f"protocol {info.protocol.removeprefix('sha256:')[:_DIGEST]}",
        _describe_question(info.plan),
        _describe_outcome(line),
        f"{describe_episodes(info.plan, summary)}, {_describe_tasks(info.plan, summary)}",
    ]
    if summary.ended < info.plan.planned and line.n:
        parts.append("incomplete: those that end first are no random sample")
    if line.n_distinct < line.n:
        parts.append(f"{line.n_distinct} distinct")
    if line.errors:
        parts.append(_describe_errors(line))
    if line.policy_errors:
        counted = "a failure" if line.policy_errors == 1 else "failures"
        parts.append(f"{pluralize(line.policy_errors, 'policy error')} counted as {counted}")
    return " | ".join(parts)


def header(info: RunInfo, summary: Summary) -> str:
    """Return the line above the table: benchmark, policy, and whether the run is complete."""
    text = f"{info.benchmark.ref}, policy {describe_policy(info.policy)}"
    if info.shard is not None:
        text += f", shard {info.shard}"
    if summary.ended < info.plan.planned:
        text += f", incomplete: {describe_played(info, summary).rstrip(',')}"
    return text


def describe_parts(info: RunInfo) -> str | None:
    """Return a sentence about the machines of a run; None if one machine played all of it."""
    if not info.parts:
        return None
    kinds = {(machine.arch, machine.cpu) for machine in info.all_machines if machine is not None}
    parts = pluralize(len(info.parts), "part")
    return f"Played in {parts}, on {pluralize(len(kinds), 'kind')} of processor."


def describe_policy(policy: PolicyInfo) -> str:
    """Return the name of a policy, with its arguments."""
    name = f"{policy.ref} (a Python object)" if policy.kind == "object" else policy.ref
    args = " ".join(f"{key}={_shown(value)}" for key, value in policy.args.items())
    return f"{name} {args}".rstrip()


def describe_overridden(info: RunInfo) -> str | None:
    """Return both sides of the conventions that a run ignored; None if it ignored none."""
    found = info.conventions
    if not found.overridden:
        return None
    return contrast(info.benchmark.name, found.benchmark, found.policy, found.overridden)


def describe_told(info: RunInfo) -> list[str]:
    """Return sentences about tasks in which the policy was told other texts than the benchmark's.

    The first kind is part of the protocol, the second belongs to the policy.
    """
    of = f"of {pluralize(len(info.plan.tasks), 'task')}"
    kinds = (
        (info.plan.instructions, "the user's (--instructions)"),
        (info.policy.instructions, "the policy's own (policy.instructions in run.json)"),
    )
    return [f"The instructions of {len(told)} {of} were {whose}." for told, whose in kinds if told]


def describe_outlier(outlier: OutlierInfo | Outlier) -> str:
    """Return a sentence about a number of a state that is far outside what was trained with."""
    statistics = ", ".join(f"{key} {value:.4g}" for key, value in outlier.statistics.items())
    return (
        f"{outlier.feature}[{outlier.index}] is {outlier.value:.4g} in task "
        f"{outlier.task}, far outside the checkpoint's statistics ({statistics}): it may have "
        "been trained with another state, other units or another robot."
    )


def describe_episodes(plan: PlanInfo, summary: Summary) -> str:
    """Return the number of episodes that count; of how many, if some were not played."""
    line = summary.overall
    if summary.ended < plan.planned:
        return f"{line.n} of {pluralize(plan.planned, 'episode')}"
    return pluralize(line.n, "episode")


def _describe_tasks(plan: PlanInfo, summary: Summary) -> str:
    line = summary.overall
    if summary.ended < plan.planned and line.n_tasks < len(plan.tasks):
        return f"{line.n_tasks} of {pluralize(len(plan.tasks), 'task')}"
    return pluralize(line.n_tasks, "task")


def _describe_question(plan: PlanInfo) -> str:
    """Return the seed, the horizon, the latency and the perturbations."""
    horizons = sorted({task.horizon for task in plan.tasks.values()})
    shown = f"horizon {horizons[0]}"
    if len(horizons) > 1:
        shown = f"horizons {horizons[0]} to {horizons[-1]}"
    late = "" if plan.latency is None else f", latency {plan.latency.words}"
    late += "".join(f", {name} {each.words}" for name, each in plan.perturbations.items())
    return f"seed {plan.seed}{' shared' if plan.seeding == 'shared' else ''}, {shown}{late}"


def _shown(value: Argument) -> str:
    plain = isinstance(value, str) and value.isprintable() and " " not in value
    return str(value) if plain else json.dumps(value)


def _describe_outcome(line: Line) -> str:
    if line.rate is not None and line.ci_low is not None and line.ci_high is not None:
        return f"{line.rate:.1%} [{line.ci_low:.1%}, {line.ci_high:.1%}]"
    if line.mean_return is not None:
        return f"mean return {line.mean_return:.6g}"
    return "no rate"


def _describe_errors(line: Line) -> str:
    text = f"{pluralize(line.errors, 'errored episode')} left out"
    if line.rate_worst is None or line.rate_best is None:
        return text
    return f"{text} (with them {line.rate_worst:.1%} to {line.rate_best:.1%})"


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
