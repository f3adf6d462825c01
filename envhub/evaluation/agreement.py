"""Whether a policy was made for the benchmark: for its conventions, and for states like these."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

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
from envhub.records import Episode
from envhub.results.paste import describe_outlier
from envhub.run_info import ConventionsInfo, OutlierInfo
from envhub.types import Outlier, PolicyFacts


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


_MOST = 20
"""Outliers that `run.json` has; more would be the same in other words."""


class OutlierLog:
    """The outliers of a run's first episodes."""

    def __init__(self, planned: Sequence[Episode], playing: Sequence[Episode]) -> None:
        """Take the episodes of the plan, and those of them that are to be played."""
        self._numbers = {each.task: each.number for each in planned if each.index == 0}
        self._pending = {each.number for each in playing if each.index == 0}
        self._found: dict[tuple[int, str, int], Outlier] = {}
        self._told = False

    def add(self, found: Iterable[Outlier]) -> None:
        """Note what a policy reports; again if its process was lost, or an episode is retried."""
        for outlier in found:
            if outlier.task in self._numbers:
                key = (self._numbers[outlier.task], outlier.feature, outlier.index)
                self._found.setdefault(key, outlier)

    def ended(self, number: int) -> None:
        """Note that an episode has a record."""
        self._pending.discard(number)

    def take_remark(self) -> str | None:
        """Return a sentence about the first outlier of the plan, once it is known which that is."""
        if self._told or not self._found:
            return None
        first = min(number for number, _, _ in self._found)
        if first > min(self._pending, default=first):
            return None
        self._told = True
        # Within an episode the first that was reported, which is the same in every run.
        return describe_outlier(
            next(one for (number, _, _), one in self._found.items() if number == first)
        )

    def info(self, before: Sequence[OutlierInfo]) -> list[OutlierInfo]:
        """Return them for `run.json`: each dimension once, of the first task in the plan.

        Args:
            before: Those that are recorded already, if the run is resumed.
        """
        first: dict[tuple[str, int], OutlierInfo] = {}
        for one in (*before, *(OutlierInfo(**asdict(each)) for each in self._found.values())):
            key = (one.feature, one.index)
            if key not in first or self._number(one) < self._number(first[key]):
                first[key] = one
        return [first[key] for key in sorted(first)][:_MOST]

    def _number(self, outlier: OutlierInfo) -> float:
        return self._numbers.get(outlier.task, math.inf)
