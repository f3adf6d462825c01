"""States far outside the statistics that a checkpoint was normalized with."""

from types import SimpleNamespace

import numpy as np
import pytest
from envhub_lerobot.outliers import OutlierFinder, limits_of, state_statistics

from envhub.types import Outlier
from envhub.wire.policy_contract import Context

STATE = "observation.state"
STATS = {
    "mean": np.array([0.0, 1.0]),
    "std": np.array([1.0, 0.0]),
    "min": np.array([-20.0, 1.0]),
    "max": np.array([10.0, 1.0]),
}


def episode(index=0, task="reach"):
    return Context("suite", task, "reach", index, index)


def looked(finder, *values, index=0, task="reach"):
    finder.look({STATE: np.array([values])}, episode(index, task))
    return finder.take()


@pytest.mark.parametrize(
    ("keys", "low", "high"),
    [
        (("mean", "std"), [-10.001, 0.999], [10.001, 1.001]),
        (("min", "max"), [-50.001, 0.999], [40.001, 1.001]),
        (("mean", "std", "min", "max"), [-50.001, 0.999], [40.001, 1.001]),
    ],
)
def test_the_rule(keys, low, high):
    """Both must be exceeded, and values that never changed have a margin."""
    limits = limits_of({key: STATS[key] for key in keys})
    np.testing.assert_allclose(limits, [low, high])


@pytest.mark.parametrize("statistics", [{}, {"mean": STATS["mean"]}, {"min": STATS["min"]}])
def test_without_statistics_nothing_is_far(statistics):
    assert limits_of(statistics) is None
    assert looked(OutlierFinder({STATE: statistics}), 1e9, 1e9) == ()


def test_what_is_found():
    finder = OutlierFinder({STATE: STATS})
    assert looked(finder, 40.0, 1.0) == ()
    statistics = {"mean": 0.0, "std": 1.0, "min": -20.0, "max": 10.0}
    assert looked(finder, -51.0, 1.0) == (Outlier("reach", STATE, 0, -51.0, statistics),)


def test_each_number_is_told_once_per_task():
    finder = OutlierFinder({STATE: STATS})
    assert [one.index for one in looked(finder, 99.0, 7.0)] == [0, 1]
    assert looked(finder, 99.0, 7.0) == ()
    assert [one.task for one in looked(finder, 99.0, 1.0, task="push")] == ["push"]


@pytest.mark.parametrize("index", [1, -1])
def test_only_first_episodes_count(index):
    assert looked(OutlierFinder({STATE: STATS}), 1e9, 1e9, index=index) == ()


def test_numbers_that_are_none():
    finder = OutlierFinder({STATE: STATS})
    assert looked(finder, np.nan, 1.0) == ()
    (one,) = looked(finder, np.inf, 1.0)
    assert one.value == 1e300  # JSON has no infinity
    unknown = {key: np.full(2, np.inf) for key in STATS}
    assert looked(OutlierFinder({STATE: unknown}), 1e9, -1e9) == ()


def test_a_state_of_another_size_is_left_to_others():
    assert looked(OutlierFinder({STATE: STATS}), 1e9, 1e9, 1e9) == ()


def test_statistics_of_processors():
    steps = [
        SimpleNamespace(),
        SimpleNamespace(stats=None),
        SimpleNamespace(stats={STATE: {"mean": 1}, "action": {}}),
    ]
    assert state_statistics(steps, [STATE, "observation.environment_state"]) == {STATE: {"mean": 1}}
