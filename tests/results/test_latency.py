"""Percentiles from counts are those of the calls, within the width of a count."""

import numpy as np
import pytest

from envhub.results.latency import Latency
from envhub.run_info import LatencyInfo


def test_percentiles():
    seconds = np.random.default_rng(0).lognormal(-5, 1, 5000)
    latency = Latency()
    for one in seconds:
        latency.add(one)
    assert latency.calls == 5000
    for share in (0.5, 0.95, 1.0):
        assert latency.percentile(share) == pytest.approx(np.quantile(seconds, share), rel=0.03)


def test_sessions_add_up():
    first, second = Latency(), Latency()
    for _ in range(3):
        first.add(0.001)
    second.add(2.0)
    again = Latency(first.info())
    again.include(second)
    found = again.info()
    assert found.calls == 4
    assert found.p50 == pytest.approx(0.001, rel=0.03)
    assert found.p95 == pytest.approx(2.0, rel=0.03)
    assert sum(found.counts.values()) == 4


def test_counts_of_somebody_else():
    counts = {"3": 2, "x": 1, "9" * 5000: 1, "-4": 1, "5": -7}
    assert Latency(LatencyInfo(calls=9, p50=1.0, p95=1.0, counts=counts)).info().calls == 2


def test_nothing_and_hardly_anything():
    latency = Latency()
    assert latency.info() is None
    with pytest.raises(ValueError, match="no call"):
        latency.percentile(0.5)
    latency.add(0.0)  # less than the clock can tell
    assert latency.info().p50 < 2e-6
