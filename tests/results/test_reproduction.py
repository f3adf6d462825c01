"""Whether a claim is reproduced. The worked values were computed by hand with scipy's quantiles."""

from typing import ClassVar

import pytest

from envhub.results.reproduction import describe_confidence, episodes_needed, judge_claim
from envhub.results.statistics import Columns, Sample, wilson


@pytest.mark.parametrize(
    ("measured", "claimed", "verdict", "low", "high"),
    [
        ((100, 100), (99, 100), "reproduced", -1.7, 4.4),
        ((473, 500), (462, 500), "reproduced", -0.4, 4.8),
        ((86, 100), (96, 100), "lower", -18.5, -2.0),
        ((59, 100), (71, 100), "undecided", -24.6, 1.2),
        ((94, 100), (7, 10), "higher", 3.7, 54.5),
    ],
)
def test_claims_of_others(measured, claimed, verdict, low, high):
    found = judge_claim(Sample([claimed]), Sample([measured]))
    assert found.verdict == verdict
    assert found.confidence == (0.9 if verdict == "reproduced" else 0.95)
    assert (100 * found.ci_low, 100 * found.ci_high) == pytest.approx((low, high), abs=0.06)
    assert found.difference == measured[0] / measured[1] - claimed[0] / claimed[1]


def test_tasks_have_the_same_weight():
    found = judge_claim(Sample([(9, 10), (10, 100)]), Sample([(90, 100), (1, 10)]))
    assert (found.claimed, found.measured, found.difference) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize(
    ("claimed", "needed"),
    [((485, 500), 100), ((97, 100), 100), ((450, 500), 200), ((400, 500), 300), ((325, 500), 500)],
)
def test_episodes_that_would_decide(claimed, needed):
    assert episodes_needed(Sample([claimed])) == needed


def test_some_claims_have_too_few_episodes():
    assert episodes_needed(Sample([(90, 100)])) is episodes_needed(Sample([(7, 10)])) is None
    assert judge_claim(Sample([(7, 10)]), Sample([(70, 100)])).needed is None
    with pytest.raises(ValueError, match="without episodes"):
        judge_claim(Sample([(0, 0)]), Sample([(1, 1)]))


class TestSharedSeeds:
    """Ten tasks with ten seeds, each of which is easy in all of them, or in none: ten episodes."""

    claimed = Sample([(80, 100)])
    tallies: ClassVar = [(6, 10)] * 10
    columns = Columns(10, (6 * 0.4**2 + 4 * 0.6**2) / 100)

    def test_their_interval_counts_seeds(self):
        alone = judge_claim(self.claimed, Sample(self.tallies))
        shared = judge_claim(self.claimed, Sample(self.tallies, self.columns))
        assert (alone.verdict, alone.seeds) == ("lower", None)
        assert (shared.verdict, shared.seeds) == ("undecided", 10)
        # By hand: the variance is (2.4 + 0.24) / 90, scaled by (1.960 / 2.262)^2: 6.142 episodes.
        low, high = wilson(0.6 * 6.1419, 6.1419)
        claim = wilson(80, 100)
        ends = (
            -0.2 - ((0.6 - low) ** 2 + (claim[1] - 0.8) ** 2) ** 0.5,
            -0.2 + ((high - 0.6) ** 2 + (0.8 - claim[0]) ** 2) ** 0.5,
        )
        assert (shared.ci_low, shared.ci_high) == pytest.approx(ends, abs=1e-4)
        assert describe_confidence(shared) == "95% interval of 10 shared seeds"
        assert describe_confidence(alone) == "95% interval"

    def test_more_of_them_decide(self):
        claim = Sample([(485, 500)])
        assert episodes_needed(claim, Sample(self.tallies)) == 100
        assert episodes_needed(claim, Sample(self.tallies, self.columns)) == 10_000
        found = judge_claim(self.claimed, Sample(self.tallies, self.columns))
        assert found.needed_if_equal
        assert found.needed is None, "the claim itself has too few for equal rates"

    def test_equal_rates(self):
        found = judge_claim(self.claimed, Sample([(8, 10)] * 10, Columns(10, 0.016)))
        assert found.verdict == "undecided"
        assert found.p == pytest.approx(1.0)
