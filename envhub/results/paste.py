"""A run in words: the line to paste, and the header above the table. Pure."""

import json

from envhub.conventions import contrast
from envhub.options import Argument
from envhub.results.evidence import describe_played
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
    """Return the seed, the horizon and the latency."""
    horizons = sorted({task.horizon for task in plan.tasks.values()})
    shown = f"horizon {horizons[0]}"
    if len(horizons) > 1:
        shown = f"horizons {horizons[0]} to {horizons[-1]}"
    late = "" if plan.latency is None else f", latency {plan.latency.words}"
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
