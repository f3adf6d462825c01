"""Whether a claimed rate is that of episodes which somebody else played. Pure.

The difference has Newcombe's interval, from the stratified intervals of both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envhub.results.paired import holm, newcombe
from envhub.results.statistics import Tally

MARGIN = 0.05
"""How far a rate may be from the claim and still reproduce it."""
_ALPHA = 0.05
_MOST_NEEDED = 100_000
"""Episodes in all; nobody plays more to decide about a claim."""
_SIZES = tuple(scale * 10**power for power in range(1, 6) for scale in (1, 2, 3, 5))

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
    needed: int | None = None
    """If it is undecided: the episodes in all that would decide; None: no number would, for the
    claim itself has too few."""
    needed_if_equal: bool = True
    """Whether that number is for equal rates; else, for the rates as measured."""

    @property
    def difference(self) -> float:
        """Measured less claimed."""
        return self.measured - self.claimed


def judge_claims(
    claims: Sequence[tuple[Sequence[Tally], Sequence[Tally]]],
) -> list[Reproduction]:
    """Compare several claims with what was measured; differences are shown by Holm's rule.

    Args:
        claims: Of each, successes and episodes of each task, or of all as one: first those that
            are claimed, then those that were measured.

    Raises:
        ValueError: One of them has no episodes.
    """
    found = [judge_claim(*claim) for claim in claims]
    adjusted = holm([each.p for each in found])
    return [
        _undecided(each, *(_played(side) for side in claim))
        if each.verdict in ("lower", "higher") and p > _ALPHA
        else each
        for each, claim, p in zip(found, claims, adjusted, strict=True)
    ]


def judge_claim(claimed: Sequence[Tally], measured: Sequence[Tally]) -> Reproduction:
    """Compare a claim with what was measured.

    Args:
        claimed: Successes and episodes of each task; or of all as one.
        measured: The same of the episodes that were played to check the claim.

    Raises:
        ValueError: One of them has no episodes.
    """
    claimed, measured = _played(claimed), _played(measured)
    rates = _rate(claimed), _rate(measured)
    inner, outer = newcombe(claimed, measured, 0.9), newcombe(claimed, measured, 0.95)
    p = _level(claimed, measured)
    if inner[0] > -MARGIN and inner[1] < MARGIN:
        return Reproduction("reproduced", *rates, *inner, 0.9, p)
    found = Reproduction("undecided", *rates, *outer, 0.95, p)
    if outer[1] < 0:
        return replace(found, verdict="lower")
    if outer[0] > 0:
        return replace(found, verdict="higher")
    return _undecided(found, claimed, measured)


def episodes_needed(
    claimed: Sequence[Tally], rates: Sequence[float] | None = None, more_than: int = 0
) -> int | None:
    """Return the episodes in all that decide about a claim; None: no number does.

    Args:
        claimed: Successes and episodes of each task; or of all as one.
        rates: Those that will be measured; None: the claimed ones, which reproduces it.
        more_than: How many are too few.
    """
    played = _played(claimed)
    rates = [successes / n for successes, n in played] if rates is None else rates

    def decides(n: int) -> bool:
        measured = [(round(n * rate), n) for rate in rates]
        low, high = newcombe(played, measured, 0.9)
        if low > -MARGIN and high < MARGIN:
            return True
        low, high = newcombe(played, measured, 0.95)
        return low > 0 or high < 0

    sizes = ((n, -(-n // len(rates))) for n in _SIZES if more_than < n <= _MOST_NEEDED)
    return next((each * len(rates) for _, each in sizes if decides(each)), None)


def _undecided(
    found: Reproduction, claimed: Sequence[Tally], measured: Sequence[Tally]
) -> Reproduction:
    """Say how many episodes would decide."""
    played = sum(n for _, n in measured)
    if (equal := episodes_needed(claimed)) is not None and equal <= played:
        rates = [successes / n for successes, n in measured]
        more = episodes_needed(claimed, rates, more_than=played)
        return replace(found, verdict="undecided", needed=more, needed_if_equal=False)
    return replace(found, verdict="undecided", needed=equal)


def _level(claimed: Sequence[Tally], measured: Sequence[Tally]) -> float:
    """Return the level at which the interval of the difference begins to contain 0."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if not 0 < middle < 1:
            break
        ends = newcombe(claimed, measured, middle)
        low, high = (low, middle) if ends[0] <= 0 <= ends[1] else (middle, high)
    return 1 - low


def _played(tallies: Sequence[Tally]) -> list[Tally]:
    return [(successes, n) for successes, n in tallies if n]


def _rate(tallies: Sequence[Tally]) -> float:
    if not tallies:
        raise ValueError("A claim without episodes cannot be compared.")
    rates = [successes / n for successes, n in tallies]
    return sum(rates) / len(rates)
