"""The states far outside a policy's training data that a run met: told once, and recorded.

Policies report them for each task's first episode, in the order in which these happen to be played.
What is told and recorded does not depend on that order.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from envhub.records import Episode
from envhub.results.paste import describe_outlier
from envhub.run_info import OutlierInfo
from envhub.types import Outlier

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
