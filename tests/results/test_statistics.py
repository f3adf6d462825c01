import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from envhub.results.statistics import DRAWS, SEED, TASKS_TO_RESAMPLE, bootstrap_tasks, wilson

TALLIES = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
OUTCOMES = st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=9)

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


# The bootstrap


def slow_bootstrap(outcomes):
    """The bootstrap number by number; only the generator is numpy's."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    tallies = sorted((sum(task), len(task)) for task in outcomes if task)
    if len(tallies) < TASKS_TO_RESAMPLE:
        picks = [[rng.binomial(n, k / n) / n for _ in range(DRAWS)] for k, n in tallies]
        low, high = 0.0, 1.0
    else:
        rates = [k / n for k, n in tallies]
        picks = [[rates[rng.integers(len(rates))] for _ in range(DRAWS)] for _ in rates]
        low, high = min(rates), max(rates)
    means = []
    for draw in zip(*picks, strict=True):
        total = 0.0
        for rate in draw:
            total += rate
        means.append(min(max(total / len(tallies), low), high))
    means.sort()
    return means[250], means[DRAWS - 251]


def outcomes_of(*tallies):
    return [[True] * successes + [False] * (n - successes) for successes, n in tallies]


@pytest.mark.parametrize(
    "tallies",
    [
        [(3, 10)],
        [(1, 1), (0, 1)],
        [(1, 3), (2, 7), (0, 4)],
        [(9, 10), (500, 1000), (0, 5), (5, 5)],
        [(0, 10), (3, 10), (5, 10), (10, 10), (7, 10)],
        [(1, 3), (2, 7), (1, 6), (1, 11), (1, 13), (4, 9), (1, 1)],
        [(1, 10)] * 6,
        [(task % 11, 10) for task in range(20)],
    ],
)
def test_the_bootstrap_is_what_plain_python_gives_with_the_same_draws(tallies):
    outcomes = outcomes_of(*tallies)
    assert bootstrap_tasks(outcomes) == slow_bootstrap(outcomes)


@settings(max_examples=10, deadline=None)
@given(OUTCOMES)
def test_the_bootstrap_is_what_plain_python_gives_for_anything(outcomes):
    assert bootstrap_tasks(outcomes) == slow_bootstrap(outcomes)


def test_few_tasks_resample_what_picking_single_episodes_resamples():
    """The binomial draw is a shortcut; picking episodes one by one agrees but for chance."""
    outcomes = outcomes_of((30, 100), (80, 100))
    chance = random.Random(1)
    means = sorted(
        sum(sum(chance.choices(task, k=len(task))) / len(task) for task in outcomes) / 2
        for _ in range(4000)
    )
    assert bootstrap_tasks(outcomes) == pytest.approx((means[100], means[-101]), abs=0.011)


def test_many_tasks_resample_tasks_and_few_resample_episodes():
    """Tasks that always or never succeed vary only if tasks are resampled."""
    assert bootstrap_tasks(outcomes_of((9, 9), (9, 9), (0, 9), (0, 9))) == (0.5, 0.5)
    low, high = bootstrap_tasks(outcomes_of((9, 9), (9, 9), (0, 9), (0, 9), (0, 9)))
    assert (low, high) == (0.0, 0.8)


@settings(deadline=None)
@given(OUTCOMES)
def test_the_interval_contains_the_mean_over_tasks(outcomes):
    low, high = bootstrap_tasks(outcomes)
    rate = sum(sum(task) / len(task) for task in outcomes) / len(outcomes)
    assert 0 <= low <= high <= 1
    assert low - 1e-12 <= rate <= high + 1e-12


@settings(deadline=None)
@given(OUTCOMES, st.randoms(use_true_random=False))
def test_no_order_matters(outcomes, chance):
    mixed = [chance.sample(task, len(task)) for task in chance.sample(outcomes, len(outcomes))]
    assert bootstrap_tasks(mixed) == bootstrap_tasks(outcomes)


@pytest.mark.parametrize("successes", [0, 1, 3, 7, 10])
@pytest.mark.parametrize("tasks", [5, 6, 10, 130])
def test_tasks_with_the_same_rate_give_exactly_that_rate(successes, tasks):
    rate = successes / 10
    assert bootstrap_tasks(outcomes_of((successes, 10)) * tasks) == (rate, rate)


@pytest.mark.parametrize("outcomes", [[], [[]], [[], []]])
def test_without_outcomes_nothing_is_known(outcomes):
    assert bootstrap_tasks(outcomes) == (0.0, 1.0)


def test_tasks_without_episodes_are_left_out():
    outcomes = outcomes_of((3, 10), (5, 10), (7, 10), (9, 10))
    assert bootstrap_tasks([*outcomes, []]) == bootstrap_tasks(outcomes)


@pytest.mark.parametrize(
    ("tallies", "expected"),
    [
        ([(30, 100), (80, 100)], (0.49, 0.61)),
        ([(task % 11, 10) for task in range(50)], (0.384, 0.556)),
    ],
)
def test_published_intervals_stay(tallies, expected):
    """A numpy that draws other numbers would change intervals that people have quoted."""
    assert bootstrap_tasks(outcomes_of(*tallies)) == pytest.approx(expected, abs=1e-9)
