"""Whether a claimed rate is that of episodes which somebody else played. Pure.

The difference has Newcombe's interval, from the stratified intervals of both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from envhub.results.paired import newcombe
from envhub.results.statistics import Tally

MARGIN = 0.05
"""How far a rate may be from the claim and still reproduce it."""
_MOST_NEEDED = 10_000
"""Episodes per task; nobody plays more to decide about a claim."""

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
    needed: int | None = None
    """If it is undecided: the episodes per task that would reproduce it if the rates are equal;
    None: no number would, for the claim itself has too few."""

    @property
    def difference(self) -> float:
        """Measured less claimed."""
        return self.measured - self.claimed


def judge_claim(claimed: Sequence[Tally], measured: Sequence[Tally]) -> Reproduction:
    """Compare a claim with what was measured.

    Args:
        claimed: Successes and episodes of each task; or of all as one.
        measured: The same of the episodes that were played to check the claim.

    Raises:
        ValueError: One of them has no episodes.
    """
    rates = _rate(claimed), _rate(measured)
    inner, outer = newcombe(claimed, measured, 0.9), newcombe(claimed, measured, 0.95)
    if inner[0] > -MARGIN and inner[1] < MARGIN:
        return Reproduction("reproduced", *rates, *inner, 0.9)
    if outer[1] < 0:
        return Reproduction("lower", *rates, *outer, 0.95)
    if outer[0] > 0:
        return Reproduction("higher", *rates, *outer, 0.95)
    return Reproduction("undecided", *rates, *outer, 0.95, episodes_needed(claimed))


def episodes_needed(claimed: Sequence[Tally]) -> int | None:
    """Return the episodes per task that reproduce a claim if the rates are equal; None: none do."""

    def decides(n: int) -> bool:
        measured = [(round(n * successes / of), n) for successes, of in claimed if of]
        low, high = newcombe(claimed, measured, 0.9)
        return low > -MARGIN and high < MARGIN

    sizes = (scale * 10**power for power in range(5) for scale in (1, 2, 3, 5))
    return next((n for n in sizes if n <= _MOST_NEEDED and decides(n)), None)


def _rate(tallies: Sequence[Tally]) -> float:
    rates = [successes / n for successes, n in tallies if n]
    if not rates:
        raise ValueError("A claim without episodes cannot be compared.")
    return sum(rates) / len(rates)
