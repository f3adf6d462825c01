import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from envhub.results.statistics import (
    Interval,
    column_sums,
    find_columns,
    most_false,
    share_seeds,
    stratified,
    student_quantile,
    tasks_like_these,
    wilson,
)

TALLIES = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
TASKS = st.lists(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=12,
)

# Wilson


@pytest.mark.parametrize(
    ("successes", "n", "confidence"),
    [
        (0, 1, 0.95),
        (1, 1, 0.95),
        (0, 10, 0.95),
        (5, 10, 0.95),
        (9, 10, 0.95),
        (10, 10, 0.95),
        (1, 50, 0.9),
        (49, 50, 0.99),
        (333, 1000, 0.5),
        (1, 10**9, 0.95),
    ],
)
def test_wilson_is_what_statsmodels_says(successes, n, confidence):
    expected = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    assert wilson(successes, n, confidence) == pytest.approx(expected, rel=0, abs=1e-12)


@given(TALLIES, st.floats(0.01, 0.9999))
def test_wilson_is_what_statsmodels_says_of_anything(tally, confidence):
    expected = proportion_confint(*tally, alpha=1 - confidence, method="wilson")
    assert wilson(*tally, confidence) == pytest.approx(expected, rel=0, abs=1e-12)


@given(TALLIES)
def test_wilson_contains_the_rate_and_is_symmetric(tally):
    successes, n = tally
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), rel=0, abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 7, 0.0, None), (7, 7, None, 1.0)],
)
def test_wilson_is_exact_where_an_end_is_known(successes, n, low, high):
    found = wilson(successes, n)
    assert found[0] == low or low is None
    assert found[1] == high or high is None


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_wilson_refuses_impossible_successes(successes, n):
    with pytest.raises(ValueError, match=rf"^{successes} of {n} episodes cannot have succeeded\.$"):
        wilson(successes, n)


@pytest.mark.parametrize("confidence", [-1.0, 1.0, 1.5])
def test_wilson_refuses_an_impossible_confidence(confidence):
    with pytest.raises(ValueError, match="range"):
        wilson(1, 2, confidence)


# Several tasks


def tens(*successes: int) -> list[tuple[int, int]]:
    return [(number, 10) for number in successes]


# Worked values, computed apart from this code.
WORKED = [
    ([(10, 10)] * 10, 100.0, 96.3, 100.0, 100.0),
    ([(5, 5)] * 5, 100.0, 86.7, 100.0, 25.0),
    ([(50, 50)] * 40, 100.0, 99.8, 100.0, 2000.0),
    (tens(*[10] * 9, 9), 99.0, 94.6, 99.8, 100.1),
    (tens(*[10] * 5, *[0] * 5), 50.0, 45.8, 54.2, 533.3),
    (tens(10, 9, 2, 0, 7, 5, 10, 10, 3, 8), 64.0, 56.4, 70.9, 165.0),
    ([(k, 50) for k in (50, 49, 48, 50, 47, 50, 49, 50, 46, 50)], 97.8, 96.1, 98.8, 508.5),
    ([(45, 50)], 90.0, 78.6, 95.7, 50.0),
    ([(20, 20)] * 2, 100.0, 91.2, 100.0, 40.0),
]


@pytest.mark.parametrize(("tallies", "rate", "low", "high", "n_effective"), WORKED)
def test_the_interval_of_several_tasks(tallies, rate, low, high, n_effective):
    found = stratified(tallies)
    assert 100 * np.mean([k / n for k, n in tallies]) == pytest.approx(rate)
    assert (100 * found.low, 100 * found.high) == pytest.approx((low, high), abs=0.05)
    assert found.n_effective == pytest.approx(n_effective, abs=0.05)


@given(TALLIES, st.floats(0.5, 0.999))
def test_for_one_task_it_is_wilsons(tally, confidence):
    found = stratified([tally], confidence)
    assert (found.low, found.high) == pytest.approx(wilson(*tally, confidence), rel=0, abs=1e-9)


@given(TASKS)
def test_it_contains_the_mean_rate_and_is_never_empty(tallies):
    rate = float(np.mean([k / n for k, n in tallies]))
    for found in filter(None, (stratified(tallies), tasks_like_these(tallies))):
        assert 0 <= found.low <= rate + 1e-12
        assert rate - 1e-12 <= found.high <= 1
        assert found.low < found.high
        assert found.n_effective > 0


@given(TASKS, st.randoms(use_true_random=False))
def test_no_order_matters(tallies, chance):
    shuffled = chance.sample(tallies, len(tallies))
    assert stratified(shuffled) == stratified(tallies)
    assert tasks_like_these(shuffled) == tasks_like_these(tallies)


@given(TASKS)
def test_failures_and_successes_are_alike(tallies):
    found, mirrored = stratified(tallies), stratified([(n - k, n) for k, n in tallies])
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)


def test_without_episodes_nothing_is_known():
    assert stratified([]) == stratified([(0, 0)]) == Interval(0.0, 1.0, 0.0)
    assert stratified([(0, 0), (3, 4)]) == stratified([(3, 4)])


# Tasks like these


@pytest.mark.parametrize("tasks", range(5))
def test_few_tasks_say_nothing_of_others(tasks):
    assert tasks_like_these([(3, 4)] * tasks) is None


def test_tasks_that_differ_say_less_of_tasks_like_these():
    tallies = tens(10, 9, 2, 0, 7, 5, 10, 10, 3, 8)
    these, alike = stratified(tallies), tasks_like_these(tallies)
    assert alike.low < these.low < these.high < alike.high
    rates = [k / 10 for k, _ in tallies]
    spread = np.var(rates, ddof=1) / 10
    ratio = scipy.stats.t.ppf(0.975, 99) / scipy.stats.t.ppf(0.975, 9)
    assert alike.n_effective == pytest.approx(0.64 * 0.36 / spread * ratio**2, rel=1e-10)
    expected = proportion_confint(
        0.64 * alike.n_effective, alike.n_effective, alpha=0.05, method="wilson"
    )
    assert (alike.low, alike.high) == pytest.approx(expected, abs=1e-10)


def test_tasks_that_are_alike_say_as_much_as_all_their_episodes():
    tallies = [(9, 10)] * 6
    assert tasks_like_these(tallies) == stratified(tallies)


@given(TASKS)
def test_tasks_like_these_are_never_known_better_than_these(tallies):
    these, alike = stratified(tallies), tasks_like_these(tallies)
    if alike is not None:
        assert alike.n_effective <= these.n_effective
        assert alike.low <= these.low
        assert these.high <= alike.high


@given(st.floats(0.6, 0.9999), st.integers(1, 10_000))
def test_students_quantile_is_scipys(probability, degrees):
    expected = scipy.stats.t.ppf(probability, degrees)
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-10, abs=1e-10)


# The bound of a sample


@pytest.mark.parametrize(
    ("checked", "total", "false"),
    [
        (50, 1000, 56),
        (50, 500, 27),
        (50, 100, 4),
        (50, 50, 0),
        (20, 500, 68),
        (100, 500, 13),
        (50, 6500, 376),
    ],
)
def test_the_bound_of_a_sample(checked, total, false):
    assert most_false(total, checked) == false


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_the_bound_is_the_largest_number_that_a_sample_may_miss(numbers):
    total, checked = numbers
    false = most_false(total, checked)

    def missed(count):
        return scipy.stats.hypergeom(total, count, checked).pmf(0)

    assert missed(false) > 0.05 - 1e-9
    assert false == total or missed(false + 1) <= 0.05 + 1e-9


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
