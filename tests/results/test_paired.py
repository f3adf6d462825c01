"""Tests and intervals for two policies, against scipy and against worked values."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from envhub.results.paired import Pairs, difference_interval, fisher, holm, mcnemar, newcombe
from envhub.results.paired import sign_flip as flip
from envhub.results.statistics import wilson

COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS)
def test_mcnemar_is_a_sign_test(a, b):
    expected = stats.binomtest(a, a + b).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected, abs=1e-10)


def test_mcnemar_with_many_pairs():
    assert mcnemar(900, 1000) == pytest.approx(stats.binomtest(900, 1900).pvalue, abs=1e-10)
    assert mcnemar(16, 47) == pytest.approx(0.00012, rel=0.1)
    assert mcnemar(0, 5) == 2 / 2**5


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_fisher(n_a, n_b, data):
    a, b = data.draw(st.integers(0, n_a)), data.draw(st.integers(0, n_b))
    expected = stats.fisher_exact([[a, n_a - a], [b, n_b - b]])[1]
    assert fisher((a, n_a), (b, n_b)) == pytest.approx(expected, abs=1e-10)


def test_newcombes_own_example():
    """Table II of his paper, method 10: 56 of 70 against 48 of 80."""
    low, high = newcombe([(48, 80)], [(56, 70)])
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe([(0, 10)], [(10, 10)])[1] == 1.0


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.4, 0.9, 0.5]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


def test_holm_against_its_definition():
    draw = random.Random(3)
    for _ in range(50):
        values = [draw.random() ** 3 for _ in range(draw.randint(1, 9))]
        for level in (0.01, 0.05, 0.2):
            rejected, order = set(), sorted(range(len(values)), key=values.__getitem__)
            for rank, i in enumerate(order):
                if values[i] > level / (len(values) - rank):
                    break
                rejected.add(i)
            assert {i for i, p in enumerate(holm(values)) if p <= level} == rejected


TASKS = st.lists(
    st.integers(1, 30).flatmap(
        lambda n: st.integers(0, n).flatmap(
            lambda a: st.integers(0, n - a).map(lambda b: Pairs(n, a, b))
        )
    ),
    min_size=1,
    max_size=12,
)


@given(TASKS)
def test_the_interval_of_a_difference(tasks):
    low, high = difference_interval(tasks)
    mean = sum(task.difference for task in tasks) / len(tasks)
    assert -1 <= low < high <= 1
    assert low - 1e-12 <= mean <= high + 1e-12
    turned = difference_interval([Pairs(task.n, task.only_b, task.only_a) for task in tasks])
    assert turned == pytest.approx((-high, -low))
    assert difference_interval(tasks[::-1]) == pytest.approx((low, high), abs=1e-12)


def test_the_interval_of_one_task_is_bonetts_and_prices():
    n, a, b = 40, 3, 11
    p, q = (b + 1) / (n + 2), (a + 1) / (n + 2)
    # One task is shrunk to itself, so that this differs from the published form by one pair.
    won, lost = (b + p) / (n + 1), (a + q) / (n + 1)
    reach = 1.959963984540054 * ((won + lost - (won - lost) ** 2) / n) ** 0.5
    expected = (p - q - reach, p - q + reach)
    assert difference_interval([Pairs(n, a, b)]) == pytest.approx(expected)


def test_equal_policies_have_an_interval_around_zero():
    low, high = difference_interval([Pairs(10, 0, 0)] * 10)
    assert low == -high
    assert 0 < high < 2 * (1 - wilson(100, 100)[0])


def test_flips_of_few_tasks_are_enumerated():
    assert flip([Pairs(10, 0, 1)] * 6) == 2 / 2**6
    assert flip([Pairs(10, 1, 1)] * 6) == 1.0
    assert flip([Pairs(10, 0, 3), Pairs(20, 6, 0)] * 3) == 1.0


def test_flips_of_many_tasks_are_drawn_and_repeat():
    tasks = [Pairs(50, i % 7, i % 9) for i in range(40)]
    assert flip(tasks) == flip(tasks[::-1])
    assert 1 / 20_001 <= flip([Pairs(10, 0, 1)] * 13) <= 4 / 2**13
