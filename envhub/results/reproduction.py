"""Whether a claimed rate is that of episodes which somebody else played. Pure.

The difference has Newcombe's interval, from the stratified intervals of both sides. Where tasks
share their seeds, these count seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envhub.results.paired import holm, newcombe
from envhub.results.statistics import Columns, Sample

MARGIN = 0.05
"""How far a rate may be from the claim and still reproduce it."""
_ALPHA = 0.05
_MOST_NEEDED = 100_000
"""Episodes in all; nobody plays more to decide about a claim."""
_SIZES = tuple(scale * 10**power for power in range(1, 6) for scale in (1, 2, 3, 5))
_LEAST = 1e-9
"""Where the search for a level begins: at 0 every interval is a point."""

Reproduced = Literal["reproduced", "lower", "higher", "undecided"]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A claim, and what was measured."""

    verdict: Reproduced
    claimed: float
    measured: float
    ci_low: float
    """Of measured less claimed: at 90 % if it is reproduced, which is two one-sided tests at 5 %,
    else at 95 %."""
    ci_high: float
    confidence: float
    p: float
    """Of the difference: the level at which its interval begins to contain 0."""
    seeds: int | None = None
    """How many were measured, if the interval counts them: tasks share them."""
    needed: int | None = None
    """If it is undecided: the episodes in all that would decide; None: no number would, for the
    claim itself has too few."""
    needed_if_equal: bool = True
    """Whether that number is for equal rates; else, for the rates as measured."""

    @property
    def difference(self) -> float:
        """Measured less claimed."""
        return self.measured - self.claimed


def judge_claims(claims: Sequence[tuple[Sample, Sample]]) -> list[Reproduction]:
    """Compare several claims with what was measured; differences are shown by Holm's rule.

    Args:
        claims: Of each the episodes that are claimed, then those that were measured.

    Raises:
        ValueError: One of them has no episodes.
    """
    found = [judge_claim(*claim) for claim in claims]
    adjusted = holm([each.p for each in found])
    return [
        _undecided(each, *map(_played, claim))
        if each.verdict in ("lower", "higher") and p > _ALPHA
        else each
        for each, claim, p in zip(found, claims, adjusted, strict=True)
    ]


def judge_claim(claimed: Sample, measured: Sample) -> Reproduction:
    """Compare a claim with what was measured.

    Args:
        claimed: The episodes of each task; or of all as one.
        measured: Those that were played to check the claim.

    Raises:
        ValueError: One of them has no episodes.
    """
    claimed, measured = _played(claimed), _played(measured)
    inner, outer = _interval(claimed, measured, 0.9), _interval(claimed, measured, 0.95)
    seeds = measured.columns.count if measured.columns else None
    found = Reproduction(
        "undecided",
        claimed.rate,
        measured.rate,
        *outer,
        confidence=0.95,
        p=_level(claimed, measured),
        seeds=seeds,
    )
    if inner[0] > -MARGIN and inner[1] < MARGIN:
        low, high = inner
        return replace(found, verdict="reproduced", ci_low=low, ci_high=high, confidence=0.9)
    if outer[1] < 0:
        return replace(found, verdict="lower")
    if outer[0] > 0:
        return replace(found, verdict="higher")
    return _undecided(found, claimed, measured)


def describe_confidence(found: Reproduction) -> str:
    """Return what interval it is: "95 % interval", and what it counts if not episodes."""
    of_seeds = "" if found.seeds is None else f" of {found.seeds} shared seeds"
    return f"{found.confidence:.0%} interval{of_seeds}"


def episodes_needed(
    claimed: Sample, measured: Sample | None = None, *, if_equal: bool = True
) -> int | None:
    """Return the episodes in all that decide about a claim; None: no number does.

    Args:
        claimed: The episodes of each task; or of all as one.
        measured: What was played so far: further seeds vary as these do; None: nothing.
        if_equal: Whether all tasks will have the claimed rate, which reproduces it; else they will
            have the rates as measured, and more episodes than these are needed.
    """
    claimed = _played(claimed)
    like, least = claimed if measured is None else _played(measured), 0
    columns = like.columns if measured is not None else None
    each = sum(n for _, n in like.tallies) / len(like.tallies)
    rates = [claimed.rate] * len(like.tallies)
    if not if_equal:
        rates = [successes / n for successes, n in like.tallies]
        least = sum(n for _, n in like.tallies)

    def decides(n: int) -> bool:
        more = columns.scaled(n / each) if columns else None
        return _decides(claimed, Sample([(rate * n, n) for rate in rates], more))

    sizes = ((n, -(-n // len(rates))) for n in _SIZES if least < n <= _MOST_NEEDED)
    return next((of_task * len(rates) for _, of_task in sizes if decides(of_task)), None)


def _decides(claimed: Sample, measured: Sample) -> bool:
    low, high = _interval(claimed, measured, 0.9)
    if low > -MARGIN and high < MARGIN:
        return True
    low, high = _interval(claimed, measured, 0.95)
    return low > 0 or high < 0


def _undecided(found: Reproduction, claimed: Sample, measured: Sample) -> Reproduction:
    """Say how many episodes would decide."""
    equal = episodes_needed(claimed, measured)
    if equal is not None and equal <= sum(n for _, n in measured.tallies):
        more = episodes_needed(claimed, measured, if_equal=False)
        return replace(found, verdict="undecided", needed=more, needed_if_equal=False)
    return replace(found, verdict="undecided", needed=equal)


def _level(claimed: Sample, measured: Sample) -> float:
    """Return the level at which the interval of the difference begins to contain 0."""
    low, high = _LEAST, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        ends = _interval(claimed, measured, middle)
        low, high = (low, middle) if ends[0] <= 0 <= ends[1] else (middle, high)
    return 1 - low


def _interval(claimed: Sample, measured: Sample, confidence: float) -> tuple[float, float]:
    columns: tuple[Columns | None, Columns | None] = (claimed.columns, measured.columns)
    return newcombe(claimed.tallies, measured.tallies, confidence, columns)


def _played(sample: Sample) -> Sample:
    tallies = [(successes, n) for successes, n in sample.tallies if n]
    if not tallies:
        raise ValueError("A claim without episodes cannot be compared.")
    return Sample(tallies, sample.columns)
