"""The columns of tasks that share their seeds."""

import numpy as np
import pytest

from envhub.results.columns import column_sums, find_columns, share_seeds


def test_columns_of_incomplete_tasks():
    outcomes = {"a": [(0, 1), (1, 0), (2, 1)], "b": [(2, 1), (0, 0)], "c": []}
    groups = dict.fromkeys("abc", "")
    columns = find_columns(outcomes, groups)
    parts = np.array([1 / 9 - 1 / 4, -2 / 9, 1 / 9 + 1 / 4]) / 2
    assert (columns.count, columns.spread) == (3, pytest.approx((parts**2).sum()))
    assert sorted(map(float, column_sums(outcomes, groups))) == pytest.approx(
        sorted([1 / 6, 0, 1 / 6 + 1 / 4])
    )
    assert find_columns(outcomes, {"a": "a", "b": "b", "c": "b"}) is None


def test_who_shares_seeds():
    groups = {"a": "a", "b": "b", "c": "b"}
    assert not share_seeds(["a", "b"], groups)
    assert share_seeds(["a", "b", "c"], groups)
    assert not share_seeds(["a", "d"], groups)
