import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.episodes import (
    env_error,
    env_timeout,
    episode,
    lost,
    policy_error,
    policy_timeout,
    silent,
    won,
    worker_died,
)

from envhub.results.statistics import stratified, tasks_like_these, wilson
from envhub.results.summary import Line, summarize, to_json

INF, NAN = float("inf"), float("nan")


def one_task(*records):
    (line,) = summarize(records, {"s": ["t"]}).tasks
    return line


def rates(line):
    return line.successes, line.rate, line.rate_worst, line.rate_best


# One task


@pytest.mark.parametrize(
    ("records", "n", "errors", "policy_errors", "expected"),
    [
        ([won(), lost(), lost(), won()], 4, 0, 0, (2, 0.5, 0.5, 0.5)),
        ([lost()], 1, 0, 0, (0, 0.0, 0.0, 0.0)),
        ([won(), lost(), env_error()], 2, 1, 0, (1, 1 / 2, 1 / 3, 2 / 3)),
        ([won(), env_timeout(), worker_died()], 1, 2, 0, (1, 1.0, 1 / 3, 1.0)),
        ([won(), policy_error(), policy_timeout()], 3, 0, 2, (1, 1 / 3, 1 / 3, 1 / 3)),
        ([won(), policy_error(), env_error()], 2, 1, 1, (1, 1 / 2, 1 / 3, 2 / 3)),
        # A policy that raises after a success has failed.
        ([lost(), policy_error(success=True)], 2, 0, 1, (0, 0.0, 0.0, 0.0)),
        # Success is reported by some episodes only: the silent ones are failures.
        ([won(), silent(), silent()], 3, 0, 0, (1, 1 / 3, 1 / 3, 1 / 3)),
        # Returns only, and a policy's failure does not make a rate of that.
        ([silent(), silent()], 2, 0, 0, (None, None, None, None)),
        ([silent(), env_error()], 1, 1, 0, (None, None, None, None)),
        ([silent(), policy_error()], 2, 0, 1, (None, None, None, None)),
        ([silent(), policy_error(success=False)], 2, 0, 1, (None, None, None, None)),
        # Nothing was ok: success is taken to be reported.
        ([policy_error(), policy_error()], 2, 0, 2, (0, 0.0, 0.0, 0.0)),
        ([policy_error(), env_error()], 1, 1, 1, (0, 0.0, 0.0, 0.5)),
        ([env_error(), worker_died()], 0, 2, 0, (None, None, 0.0, 1.0)),
        ([], 0, 0, 0, (None, None, None, None)),
    ],
)
def test_a_task(records, n, errors, policy_errors, expected):
    line = one_task(*records)
    assert (line.suite, line.task, line.n_tasks) == ("s", "t", min(n, 1))
    assert (line.n, line.errors, line.policy_errors) == (n, errors, policy_errors)
    assert rates(line) == expected
    interval = (None, None) if line.rate is None else wilson(line.successes, n)
    assert (line.ci_low, line.ci_high) == interval


@pytest.mark.parametrize(
    ("records", "mean_return", "mean_steps"),
    [
        ([won(reward=1.0, steps=10), lost(reward=2.0, steps=15)], 1.5, 12.5),
        ([silent(reward=-3.0, steps=2)], -3.0, 2.0),
        ([won(reward=1.0), policy_error(reward=9.0, steps=9), env_error(reward=9.0)], 1.0, 1.0),
        ([policy_error(reward=9.0)], None, None),
        ([env_error(reward=9.0)], None, None),
        ([], None, None),
        ([won(reward=0.1)] * 10, 0.1, 1.0),
        ([won(reward=sys.float_info.max)] * 3, sys.float_info.max, 1.0),
        ([won(reward=NAN), won(reward=1.0)], None, 1.0),
        ([won(reward=INF)], None, 1.0),
        ([won(reward=INF), won(reward=-INF)], None, 1.0),
    ],
)
def test_the_means_are_over_ok_episodes(records, mean_return, mean_steps):
    summary = summarize(records, {"s": ["t"]})
    for line in (*summary.tasks, *summary.suites, summary.overall):
        assert (line.mean_return, line.mean_steps) == (mean_return, mean_steps)
        assert line.mean_steps is None or type(line.mean_steps) is float


# Several tasks


def test_a_suite_is_the_mean_over_tasks():
    """However many episodes count: 1 of 1 and 0 of 3 is a half."""
    records = [
        won("a", reward=8.0, steps=4),
        *[lost("b", reward=2.0, steps=8)] * 3,
        env_error("b"),
        policy_error("c", reward=99.0),
    ]
    summary = summarize(records, {"s": ["a", "b", "c"]})
    (suite,) = summary.suites
    interval = stratified([(1, 1), (0, 3), (0, 1)])
    assert suite == Line(
        suite="s",
        task=None,
        n=5,
        n_distinct=5,
        n_tasks=3,
        successes=1,
        rate=1 / 3,
        ci_low=interval.low,
        ci_high=interval.high,
        n_effective=interval.n_effective,
        mean_return=5.0,
        mean_steps=6.0,
        errors=1,
        policy_errors=1,
        rate_worst=1 / 3,
        rate_best=(1 + 1 / 4) / 3,
    )


def test_many_tasks_have_a_second_interval_for_tasks_like_them():
    records = [episode(f"t{task}", k < task) for task in range(8) for k in range(7)]
    (suite,) = summarize(records, {"s": [f"t{task}" for task in range(8)]}).suites
    tallies = [(task, 7) for task in range(8)]
    these, alike = stratified(tallies), tasks_like_these(tallies)
    assert suite.rate == 0.5
    assert (suite.ci_low, suite.ci_high) == (these.low, these.high)
    assert (suite.ci_low_tasks, suite.ci_high_tasks) == (alike.low, alike.high)
    assert alike.low < these.low


def test_a_task_in_several_suites_counts_in_each_and_once_overall():
    records = [won("a", suite="x"), lost("b", suite="y"), lost("c", suite="y")]
    summary = summarize(records, {"x": ["a", "b"], "y": ["b", "c", "a"]})
    assert [(line.suite, line.task) for line in summary.tasks] == [
        ("x", "a"),
        ("x", "b"),
        ("y", "c"),
    ]
    assert [(line.suite, line.n, line.n_tasks, line.rate) for line in summary.suites] == [
        ("x", 2, 2, 1 / 2),
        ("y", 3, 3, 1 / 3),
    ]
    overall = summary.overall
    assert (overall.suite, overall.task) == (None, None)
    assert (overall.n, overall.n_tasks, overall.successes, overall.rate) == (3, 3, 1, 1 / 3)


def test_a_suite_that_names_a_task_twice_counts_it_once():
    summary = summarize([won("a"), lost("b")], {"s": ["a", "b", "a"]})
    assert (summary.suites[0].n, summary.suites[0].rate) == (2, 0.5)


def test_an_errored_task_is_left_out_of_the_rate_and_part_of_best_and_worst():
    summary = summarize([won("a"), env_error("b"), env_error("b")], {"s": ["a", "b"]})
    assert rates(summary.tasks[1]) == (None, None, 0.0, 1.0)
    assert rates(summary.overall) == (1, 1.0, 0.5, 1.0)
    assert (summary.overall.n, summary.overall.n_tasks, summary.overall.errors) == (1, 1, 2)


def test_a_task_without_episodes_says_nothing():
    summary = summarize([won("a")], {"s": ["a", "b"], "empty": []})
    assert summary.tasks[1] == Line(
        suite="s", task="b", n=0, n_distinct=0, n_tasks=0, errors=0, policy_errors=0
    )
    assert rates(summary.overall) == (1, 1.0, 1.0, 1.0)
    assert summary.overall.n_tasks == 1
    assert rates(summary.suites[1]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (won("b"), (0, 0.0, 0.0, 0.5)),
        (lost("b"), (0, 0.0, 0.0, 0.5)),
        (policy_error("b"), (0, 0.0, 0.0, 0.5)),
        (env_error("b"), (0, 0.0, 0.0, 0.5)),
        (silent("b"), (None, None, None, None)),
    ],
)
def test_a_task_without_an_ok_episode_is_taken_to_be_like_the_others(other, expected):
    records = [policy_error("a"), env_error("a"), other]
    assert rates(summarize(records, {"s": ["a", "b"]}).tasks[0]) == expected


@pytest.mark.parametrize("teller", [won("a", reward=1.0), lost("a", reward=1.0)])
def test_a_task_that_reports_no_success_lowers_the_rate_of_no_other(teller):
    """Whether success is reported is a fact about the task, not about the run."""
    records = [teller, silent("b", reward=5.0), env_error("b")]
    summary = summarize(records, {"s": ["a"], "r": ["b"]})
    assert rates(summary.tasks[1]) == (None, None, None, None)
    overall, a = summary.overall, float(teller.success)
    assert rates(overall) == (int(a), a, a, a)
    assert (overall.n, overall.n_tasks, overall.mean_return) == (1, 1, 3.0), "of the rate"


def test_returns_only_in_every_task():
    records = [silent("a", reward=1.0), silent("b", reward=5.0), env_error("b"), policy_error("c")]
    summary = summarize(records, {"s": ["a", "b", "c"]})
    for line in lines_of(summary):
        assert rates(line) == (None, None, None, None)
    assert (summary.overall.n, summary.overall.mean_return) == (3, 3.0)


@pytest.mark.parametrize(("successes", "n"), [(3, 3), (0, 4), (1, 7), (30, 100)])
def test_a_single_task_has_wilsons_interval_in_every_line(successes, n):
    records = [won()] * successes + [lost()] * (n - successes)
    for line in lines_of(summarize([*records, env_error("u")], {"s": ["t", "u"]})):
        if line.task != "u":
            assert (line.ci_low, line.ci_high) == pytest.approx(wilson(successes, n), abs=1e-12)


def test_where_all_succeed_the_interval_has_a_width():
    records = [won(task) for task in "abcdefghij" for _ in range(10)]
    overall = summarize(records, {"s": list("abcdefghij")}).overall
    assert (overall.rate, round(overall.ci_low, 3), overall.ci_high) == (1.0, 0.963, 1.0)


def test_whether_success_is_reported_is_a_fact_about_the_task():
    """A task that reports returns only has no rate, and lowers that of no other."""
    records = [won("a"), lost("a"), silent("b"), silent("b"), policy_error("c")]
    summary = summarize(records, {"s": ["a", "b", "c"]})
    assert [line.rate for line in summary.tasks] == [0.5, None, 0.0]
    assert (summary.overall.rate, summary.overall.n, summary.overall.n_tasks) == (0.25, 3, 2)


def test_two_tasks_have_a_stratified_interval():
    records = [won("a"), lost("a"), won("b")]
    overall = summarize(records, {"s": ["a", "b"]}).overall
    interval = stratified([(1, 2), (1, 1)])
    assert (overall.ci_low, overall.ci_high) == (interval.low, interval.high)


def test_a_return_that_is_no_number_is_not_left_out_in_silence():
    records = [won("a", reward=1.0), won("b", reward=INF), policy_error("c")]
    overall = summarize(records, {"s": ["a", "b", "c"]}).overall
    assert (overall.mean_return, overall.mean_steps) == (None, 1.0)


def test_a_record_of_a_foreign_task_is_refused():
    with pytest.raises(ValueError, match=r"^A record's task 'x' is in none of the suites\.$"):
        summarize([won("x")], {"s": ["t"]})


def test_records_may_come_from_a_generator():
    assert summarize((won() for _ in range(3)), {"s": ["t"]}).overall.n == 3


# Anything

KINDS = [won, lost, silent, env_error, worker_died, policy_error, policy_timeout, env_timeout]
SUITES = {"x": ["a", "b", "c"], "y": ["c", "d"], "z": ["e", "f", "a"]}
RECORDS = st.lists(
    st.builds(
        lambda kind, task, **rest: kind(task, **rest),
        st.sampled_from(KINDS),
        st.sampled_from("abcdef"),
        suite=st.sampled_from("xyz"),
        reward=st.floats(),
        steps=st.integers(0, 1000),
    ),
    max_size=40,
)
UNLIMITED = settings(deadline=None, max_examples=60)


def lines_of(summary):
    return (*summary.tasks, *summary.suites, summary.overall)


@UNLIMITED
@given(RECORDS, st.randoms(use_true_random=False))
def test_neither_order_nor_the_recorded_suite_matters(records, chance):
    mixed = chance.sample(records, len(records))
    expected = summarize(records, SUITES)
    assert summarize(mixed, SUITES) == expected
    moved = [replace(record, suite="x") for record in records]
    assert summarize(moved, SUITES) == expected


@UNLIMITED
@given(RECORDS)
def test_what_is_true_of_every_line(records):
    for line in lines_of(summarize(records, SUITES)):
        known = {value is None for value in (line.successes, line.rate, line.ci_low, line.ci_high)}
        assert len(known) == 1
        assert (line.rate_worst is None) == (line.rate_best is None)
        if line.rate_worst is not None:
            assert 0 <= line.rate_worst <= line.rate_best <= 1
        if line.rate is not None:
            assert line.rate_worst <= line.rate <= line.rate_best
            assert 0 <= line.ci_low <= line.rate <= line.ci_high <= 1
            assert line.successes <= line.n - line.policy_errors
        if not line.errors and line.rate is not None:
            assert line.rate_worst == line.rate == line.rate_best


@UNLIMITED
@given(RECORDS)
def test_no_episode_is_lost_or_counted_twice(records):
    summary = summarize(records, SUITES)
    overall = summary.overall
    assert sum(line.n + line.errors for line in summary.tasks) == len(records)
    assert overall.errors == sum(line.errors for line in summary.tasks)
    by_task = {line.task: line for line in summary.tasks}
    groups = [(suite, [by_task[task] for task in SUITES[suite.suite]]) for suite in summary.suites]
    for group, tasks in ((overall, summary.tasks), *groups):
        rated = [line for line in tasks if line.rate is not None] or tasks
        assert group.n == sum(line.n for line in rated), "beside a rate stand its episodes"
        assert group.n_tasks == sum(line.n_tasks for line in rated)
        assert group.policy_errors == sum(line.policy_errors for line in rated)


# What leaves


@UNLIMITED
@given(RECORDS)
def test_the_json_holds_plain_finite_data(records):
    summary = summarize(records, SUITES)
    data = to_json(summary)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data) == ["tasks", "suites", "overall"]
    written = (*data["tasks"], *data["suites"], data["overall"])
    assert tuple(Line(**line) for line in written) == lines_of(summary)


def test_the_json_has_these_keys():
    data = to_json(summarize([won(reward=2.0, steps=3)], {"s": ["t"]}))
    low, high = wilson(1, 1)
    assert data["tasks"] == [
        {
            "suite": "s",
            "task": "t",
            "n": 1,
            "n_distinct": 1,
            "n_tasks": 1,
            "successes": 1,
            "rate": 1.0,
            "ci_low": low,
            "ci_high": high,
            "n_effective": 1.0,
            "ci_low_tasks": None,
            "ci_high_tasks": None,
            "mean_return": 2.0,
            "mean_steps": 3.0,
            "errors": 0,
            "policy_errors": 0,
            "rate_worst": 1.0,
            "rate_best": 1.0,
        }
    ]
    assert list(data["overall"]) == list(data["suites"][0]) == list(data["tasks"][0])
