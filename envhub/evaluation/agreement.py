"""Whether a policy was trained with the conventions of the benchmark that it is evaluated on."""

from collections.abc import Mapping
from dataclasses import dataclass

from envhub.conventions import (
    KEYS,
    Convention,
    Conventions,
    check_conventions,
    contrast,
    describe,
    differing,
)
from envhub.declarations import Benchmark
from envhub.errors import ConventionsDiffer
from envhub.run_info import ConventionsInfo
from envhub.types import PolicyFacts


@dataclass(frozen=True, slots=True)
class Agreement:
    """What both sides declare."""

    benchmark: Mapping[str, Convention]
    policy: Mapping[str, Convention]
    overridden: tuple[str, ...]
    """The keys for which they differ, with `--ignore-conventions`."""

    def info(self, *, ignore: bool) -> ConventionsInfo:
        """Return what `run.json` says of it, beside what was asked for."""
        return ConventionsInfo(
            ignore=ignore,
            benchmark=dict(self.benchmark),
            policy=dict(self.policy),
            overridden=list(self.overridden),
        )


def agree(benchmark: Benchmark, facts: PolicyFacts, *, ignore: bool) -> Agreement:
    """Compare the conventions of a benchmark and a policy.

    Args:
        benchmark: The benchmark.
        facts: What the policy declares.
        ignore: Whether a difference is only to be recorded.

    Raises:
        ConventionsDiffer: They differ; names both sides.
        ContractError: The policy's are not conventions.
    """
    ours = benchmark.conventions_for(facts.format)
    # Once more, because a benchmark's own policy comes from a process that is not trusted.
    theirs = check_conventions("The policy", facts.conventions)
    keys = differing(ours, theirs)
    if keys and not ignore:
        raise ConventionsDiffer(contrast(benchmark.name, ours, theirs, keys), ours, theirs)
    return Agreement(ours, theirs, keys)


def remark_on(agreement: Agreement, benchmark: Benchmark, *, own: bool) -> str | None:
    """Return a sentence about what differs, or what one side alone declares; None if nothing does.

    Args:
        agreement: The conventions of both sides.
        benchmark: The benchmark.
        own: Whether the policy is the benchmark's or EnvHub's own, which need not declare any.
    """
    ours, theirs, name = agreement.benchmark, agreement.policy, benchmark.name
    if agreement.overridden:
        return f"Ignoring conventions: {contrast(name, ours, theirs, agreement.overridden)}."
    declares = bool(benchmark.known_conventions or benchmark.lerobot_conventions)
    if own or not (declares or theirs):
        return None
    if not theirs:
        return (
            f"The policy declares no conventions to compare with those of {name}, which "
            "`envhub info` shows."
        )
    if not declares:
        return (
            f"{name} declares no conventions to compare with those of the policy: "
            f"{describe(theirs)}."
        )
    return _remark_on_rest(ours, theirs, name)


def _remark_on_rest(ours: Conventions, theirs: Conventions, name: str) -> str | None:
    alone = {
        name: [key for key in KEYS if key in ours and key not in theirs],
        "the policy": [key for key in KEYS if key in theirs and key not in ours],
    }
    said = [f"only {side} declares {', '.join(keys)}" for side, keys in alone.items() if keys]
    return f"Some conventions are not compared: {'; '.join(said)}." if said else None
