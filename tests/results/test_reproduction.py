"""Whether a claim is reproduced. The worked values were computed by hand with scipy's quantiles."""

import pytest

from envhub.results.reproduction import episodes_needed, judge_claim


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
    found = judge_claim([claimed], [measured])
    assert found.verdict == verdict
    assert found.confidence == (0.9 if verdict == "reproduced" else 0.95)
    assert (100 * found.ci_low, 100 * found.ci_high) == pytest.approx((low, high), abs=0.06)
    assert found.difference == measured[0] / measured[1] - claimed[0] / claimed[1]


def test_tasks_have_the_same_weight():
    found = judge_claim([(9, 10), (10, 100)], [(90, 100), (1, 10)])
    assert (found.claimed, found.measured, found.difference) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize(
    ("claimed", "needed"),
    [((485, 500), 100), ((97, 100), 100), ((450, 500), 200), ((400, 500), 300), ((325, 500), 500)],
)
def test_episodes_that_would_decide(claimed, needed):
    assert episodes_needed([claimed]) == needed


def test_some_claims_have_too_few_episodes():
    assert episodes_needed([(90, 100)]) is episodes_needed([(7, 10)]) is None
    assert judge_claim([(7, 10)], [(70, 100)]).needed is None
    with pytest.raises(ValueError, match="without episodes"):
        judge_claim([(0, 0)], [(1, 1)])
