"""Tests and intervals for two policies, against scipy and against worked values."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from envhub.results.paired import (
    Pairs,
    difference_interval,
    exact_conditional,
    fisher,
    holm,
    mcnemar,
    newcombe,
    welch,
)
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
    spread = (won + lost - (won - lost) ** 2) / n + 2 / (n + 2) ** 2
    reach = 1.959963984540054 * spread**0.5
    expected = (p - q - reach, p - q + reach)
    assert difference_interval([Pairs(n, a, b)]) == pytest.approx(expected)


def test_equal_policies_have_an_interval_around_zero():
    low, high = difference_interval([Pairs(10, 0, 0)] * 10)
    assert low == -high
    assert 0 < high < 2 * (1 - wilson(100, 100)[0])


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([Pairs(50, 0, 0)], (-5.3845, 5.3845)),
        ([Pairs(10, 0, 0)] * 10, (-2.8503, 2.8503)),
        ([Pairs(50, 0, 0)] * 10, (-0.5577, 0.5577)),
        ([Pairs(50, 3, 8)], (-4.177, 23.407)),
        ([Pairs(10, 0, 2), *[Pairs(10, 0, 0)] * 9], (-1.913, 5.835)),
        ([Pairs(10, 0, 1)] * 5 + [Pairs(10, 0, 0)] * 5, (-0.289, 10.093)),
        ([Pairs(20, 2, 1), Pairs(20, 0, 4), Pairs(20, 1, 1)], (-5.709, 15.386)),
        ([Pairs(100, 10, 0), Pairs(10, 0, 5)], (2.888, 36.398)),
    ],
)
def test_worked_values_of_the_interval(tasks, expected):
    assert [100 * end for end in difference_interval(tasks)] == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("a", "b", "p", "direction", "interval"),
    [
        ([(45, 50)], [(38, 50)], 0.10837, -1, (-0.2856, 0.0094)),
        ([(90, 100), (1, 10)], [(9, 10), (10, 100)], 1.0, 0, (-0.1555, 0.1555)),
        (
            [(18, 20), (10, 20), (5, 20)],
            [(20, 20), (15, 20), (9, 20)],
            0.02700,
            1,
            (0.0322, 0.3229),
        ),
    ],
)
def test_independent_runs_are_tested_task_by_task(a, b, p, direction, interval):
    """Pooled, the second row would be called different with p = 2e-23."""
    found = exact_conditional(a, b)
    assert (found.p, found.direction) == (pytest.approx(p, abs=5e-6), direction)
    assert newcombe(a, b) == pytest.approx(interval, abs=6e-5)


def test_groups_of_runs_against_scipy():
    a, b = [0.80, 0.84, 0.79], [0.86, 0.88, 0.85]
    found = welch(a, b)
    assert (found.difference, found.low, found.high) == pytest.approx(
        (0.0533, -0.0009, 0.1075), abs=6e-5
    )
    assert found.degrees == pytest.approx(3.2, abs=1e-3)
    assert found.p == pytest.approx(stats.ttest_ind(b, a, equal_var=False).pvalue, abs=1e-10)
    assert welch([0.5, 0.5], [0.9, 0.9]).degrees is None


def test_flips_of_few_tasks_are_enumerated():
    assert flip([Pairs(10, 0, 1)] * 6) == 2 / 2**6
    assert flip([Pairs(10, 1, 1)] * 6) == 1.0
    assert flip([Pairs(10, 0, 3), Pairs(20, 6, 0)] * 3) == 1.0


def test_flips_of_many_tasks_are_drawn_and_repeat():
    tasks = [Pairs(50, i % 7, i % 9) for i in range(40)]
    assert flip(tasks) == flip(tasks[::-1])
    assert 1 / 20_001 <= flip([Pairs(10, 0, 1)] * 13) <= 4 / 2**13
