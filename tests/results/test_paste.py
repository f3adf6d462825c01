"""The line to paste, and the header above the table."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from support.episodes import env_error, episode, lost, policy_error, silent, won
from support.run_json import MANIFEST, info_of

from envhub.results.compare import compare
from envhub.results.paired import flip_signs, permute
from envhub.results.paste import describe_evidence, header, paste_line
from envhub.results.statistics import stratified, wilson
from envhub.results.summary import summarize

SUITES = {"s": ["t", "u"], "again": ["t"]}


def info(episodes=1, suites=SUITES, **policy):
    tasks = dict.fromkeys(
        (task for suite in suites.values() for task in suite), MANIFEST["plan"]["tasks"]["near"]
    )
    plan = {"suites": suites, "episodes": episodes, "tasks": tasks}
    return info_of(
        MANIFEST
        | {
            "benchmark": MANIFEST["benchmark"] | {"ref": "metaworld"},
            "policy": MANIFEST["policy"] | {"ref": "./p.py", **policy},
            "protocol": "sha256:0123456789abcdef" + "0" * 48,
            "plan": MANIFEST["plan"] | plan,
        }
    )


def line(records, planned, suites=SUITES, **policy):
    return paste_line(info(planned, suites, **policy), summarize(records, suites))


ONE = {"s": ["t"]}


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([won()] * 3, "100.0% [43.9%, 100.0%] | 3 episodes, 1 task"),
        ([won()] * 30 + [lost()] * 70, "30.0% [21.9%, 39.6%] | 100 episodes, 1 task"),
        (
            [*[won()] * 9, lost(), env_error()],
            (
                "90.0% [59.6%, 98.2%] | 10 episodes, 1 task"
                " | 1 errored episode left out (with them 81.8% to 90.9%)"
            ),
        ),
        (
            [won(), policy_error(), policy_error()],
            "33.3% [6.1%, 79.2%] | 3 episodes, 1 task | 2 policy errors counted as failures",
        ),
        (
            [won(), policy_error()],
            "50.0% [9.5%, 90.5%] | 2 episodes, 1 task | 1 policy error counted as a failure",
        ),
        ([silent(reward=512.25)], "mean return 512.25 | 1 episode, 1 task"),
        (
            [silent(reward=-1.0), env_error(), env_error()],
            "mean return -1 | 1 episode, 1 task | 2 errored episodes left out",
        ),
        (
            [env_error()],
            "no rate | 0 episodes, 0 tasks | 1 errored episode left out (with them 0.0% to 100.0%)",
        ),
    ],
)
def test_the_line_to_paste_names_benchmark_policy_and_protocol(records, text):
    expected = (
        f"metaworld | policy ./p.py | protocol 0123456789ab | seed 0 shared, horizon 5 | {text}"
    )
    assert line(records, len(records), ONE) == expected


@pytest.mark.parametrize(
    ("records", "planned", "said"),
    [
        (
            [won(), won()],
            150,
            (
                "| 2 of 300 episodes, 1 of 2 tasks | incomplete: those that end first are no "
                "random sample"
            ),
        ),
        ([won("t"), lost("u")], 1, "| 2 episodes, 2 tasks"),
        (
            [won(), env_error()],
            150,
            (
                "| 1 of 300 episodes, 1 of 2 tasks | incomplete: those that end first are no "
                "random sample | 1 errored episode left out"
            ),
        ),
        ([], 1, "| no rate | 0 of 2 episodes, 0 of 2 tasks"),
    ],
)
def test_the_line_of_an_incomplete_run_says_of_how_many(records, planned, said):
    assert said in line(records, planned)


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ({"ref": "random"}, "policy random |"),
        ({"args": {"gain": 2, "mode": "fast"}}, "policy ./p.py gain=2 mode=fast |"),
        ({"args": {"text": "two\nlines"}}, r'policy ./p.py text="two\nlines" |'),
        ({"kind": "object", "ref": "Still"}, "policy Still (a Python object) |"),
    ],
)
def test_the_policy_is_named_with_its_arguments(policy, shown):
    text = line([won()], 1, ONE, **policy)
    assert shown in text
    assert len(text.splitlines()) == 1


def test_the_header():
    complete = summarize([won("t"), lost("u")], SUITES)
    assert header(info(), complete) == "metaworld, policy ./p.py"
    partial = summarize([won("t"), env_error("u")], SUITES)
    assert header(info(150), partial) == "metaworld, policy ./p.py, incomplete: 2 of 300 episodes"
    one = summarize([won("t")], SUITES)
    assert header(info(200), one).endswith("incomplete: 1 of 400 episodes, 1 of 2 tasks")


def question(tasks=("t",), episodes=1, seeding="task", **of_tasks):
    horizon = {"horizon": 60, "success": "once", "init_states": 0}
    plan = {
        "suites": {"s": list(tasks)},
        "episodes": episodes,
        "seeding": seeding,
        "tasks": {task: horizon | of_tasks.get(task, {}) for task in tasks},
    }
    return info_of(MANIFEST | {"plan": MANIFEST["plan"] | plan})


def played(task, outcomes, states=None):
    """Episodes by their index; with `states` only so many are distinct."""
    return [
        replace(
            episode(task, bool(outcome)),
            episode=k,
            trace=f"trace {k % states if states else k}",
            first_observation=f"state {k % states if states else k}",
        )
        for k, outcome in enumerate(outcomes)
    ]


# Repeats


@pytest.mark.parametrize(
    ("outcomes", "low", "high"), [("00000", 0.0, 0.4345), ("11100", 0.2307, 0.8824)]
)
def test_five_states_are_five_episodes_however_often_they_are_played(outcomes, low, high):
    """Five of five and three of five by Wilson's formula."""
    records = played("t", [int(one) for one in outcomes] * 100, states=5)
    line = summarize(records, {"s": ["t"]}).tasks[0]
    assert (line.n, line.n_distinct, line.n_effective) == (500, 5, 5.0)
    assert line.rate == outcomes.count("1") / 5
    assert (line.ci_low, line.ci_high) == pytest.approx((low, high), abs=5e-5)
    overall = summarize(records, {"s": ["t"]}).overall
    assert (overall.ci_low, overall.ci_high) == pytest.approx((low, high), abs=5e-5)
    assert describe_evidence(question(episodes=500), summarize(records, {"s": ["t"]})) == [
        (
            "495 of 500 episodes repeat another of their task, with the same first observation, "
            "actions and rewards: intervals count 5."
        )
    ]
    assert "500 episodes, 1 task | 5 distinct" in paste_line(
        question(episodes=500), summarize(records, {"s": ["t"]})
    )


def test_what_is_no_repeat():
    """The same trace from another state, another trace from the same, and what is not known."""
    base = replace(lost(), trace="a", first_observation="x")
    others = [
        replace(base, first_observation="y"),
        replace(base, trace="b"),
        replace(base, task="u"),
    ]
    summary = summarize([base, *others], {"s": ["t", "u"]})
    assert (summary.overall.n, summary.overall.n_distinct) == (4, 4)
    unknown = [replace(base, first_observation=None)] * 3
    assert summarize(unknown, {"s": ["t"]}).overall.n_distinct == 3
    assert describe_evidence(question(("t", "u"), 2), summary) == []


def test_pairs_that_repeat_count_once(make_run):
    def states(directory):
        path = directory / "episodes.jsonl"
        lines = []
        for number, line in enumerate(path.read_text().splitlines()):
            began = f'{{"first_observation":"sha256:{number % 5}",'
            traced = line.replace('"trace": "sha256:0"', f'"trace": "sha256:{number % 5}"')
            lines.append(traced.replace("{", began, 1))
        path.write_text("\n".join(lines) + "\n")
        return directory

    a = states(make_run("a", near="1100011000"))
    b = states(make_run("b", near="1111011110"))
    found = compare(a, b)
    assert (found.tasks[0].n_a, found.only_b, found.only_a, found.repeats) == (5, 2, 0, 5)
    assert found.p == 0.5
    assert found.to_json()["repeats"] == 5
    apart = compare(a, b, paired=False)
    assert (apart.tasks[0].n_a, apart.tasks[0].n_b, apart.repeats) == (5, 5, 10)


# Shared seeds

MATRICES = st.tuples(st.integers(2, 6), st.integers(2, 9)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(0, 1), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(MATRICES)
def test_shared_seeds_are_clusters(rows):
    """The formula, written down again: y_k is the mean of column k, one pseudo-column is added."""
    won_by = np.array(rows)
    tasks = [f"t{row}" for row in range(len(rows))]
    records = [
        record for task, row in zip(tasks, rows, strict=True) for record in played(task, row)
    ]
    found = summarize(records, {"s": tasks}, dict.fromkeys(tasks, "")).overall
    alone = stratified([(int(row.sum()), len(row)) for row in won_by])
    seeds, p = won_by.shape[1], won_by.mean()
    ratio = (stats.norm.ppf(0.975) / stats.t.ppf(0.975, seeds - 1)) ** 2
    if 0 < p < 1:
        deviations = won_by.mean(axis=0) - p
        v = ((deviations**2).sum() + p * (1 - p)) / (seeds * (seeds - 1))
        clustered = p * (1 - p) / v * ratio
    else:
        clustered = seeds * (seeds - 1) * ratio
    m = min(alone.n_effective, clustered)
    assert found.n_effective == pytest.approx(m)
    expected = proportion_confint(p * m, m, alpha=0.05, method="wilson")
    assert (found.ci_low, found.ci_high) == pytest.approx(expected, abs=1e-9)
    assert found.ci_low <= alone.low + 1e-12
    assert found.ci_high >= alone.high - 1e-12


def test_one_task_and_tasks_of_their_own_seeds_share_nothing():
    records = [*played("t", [1, 0, 1]), *played("u", [1, 1, 1])]
    own = summarize(records, {"s": ["t", "u"]}, {"t": "t", "u": "u"})
    assert own == summarize(records, {"s": ["t", "u"]})
    shared = summarize(records, {"s": ["t", "u"], "r": ["t"]}, {"t": "", "u": ""})
    assert (shared.suites[1].ci_low, shared.suites[1].ci_high) == wilson(2, 3)
    assert shared.overall.n_effective < own.overall.n_effective
    (said,) = describe_evidence(question(("t", "u"), 3, "shared"), shared)
    assert said.startswith("Tasks have the same seeds (--seeding shared), and one seed may be easy")
    assert describe_evidence(question(("t", "u"), 3), own) == []
    (said,) = describe_evidence(question(("t", "u"), 3, u={"seeds_of": "t"}), shared)
    assert said.startswith("Tasks have the same seeds, and one seed")


def test_one_lucky_seed_does_not_decide(make_run):
    """In all ten tasks only B wins in seeds 0 and 1: ten tasks, and yet only two seeds."""
    names = [f"t{i}" for i in range(10)]

    def tasks(seeding):
        def change(info):
            info["plan"]["seeding"] = seeding
            info["plan"]["tasks"] = dict.fromkeys(names, info["plan"]["tasks"]["near"])
            info["plan"]["suites"] = {"s": names}

        return change

    for seeding, p, verdict, seeds in (
        ("task", 2 / 2**20, "better", None),
        ("shared", 0.5, "undecided", 10),
    ):
        a = make_run(f"a-{seeding}", tasks(seeding), **dict.fromkeys(names, "0000011111"))
        b = make_run(f"b-{seeding}", tasks(seeding), **dict.fromkeys(names, "1100011111"))
        found = compare(a, b)
        assert (found.p, found.verdict, found.seeds) == (pytest.approx(p), verdict, seeds)
        assert (found.p_tasks is None) == (seeding == "shared")
        if seeding == "shared":
            assert found.ci_low < 0 < found.ci_high
            apart = compare(a, b, paired=False)
            assert (apart.seeds, apart.verdict) == (20, "undecided")
            # The same as scipy's, drawn by other random numbers.
            each = [np.array([0] * 5 + [1] * 5), np.array([1, 1, 0, 0, 0] + [1] * 5)]
            own = stats.permutation_test(
                each, lambda x, y: y.mean() - x.mean(), n_resamples=20_000, rng=1
            )
            assert apart.p == pytest.approx(own.pvalue, abs=0.03)
            assert apart.ci_low < apart.difference < apart.ci_high


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=12))
def test_flips_are_exact_up_to_twelve(values):
    own = stats.permutation_test(
        [np.array(values)], np.sum, permutation_type="samples", n_resamples=2**12
    )
    assert flip_signs([Fraction(each, 7) for each in values]) == pytest.approx(own.pvalue)


def test_drawn_flips_and_permutations_repeat_and_agree_with_scipys():
    rng = np.random.default_rng(3)
    values = rng.integers(-4, 6, 30)
    p = flip_signs([Fraction(int(each), 10) for each in values])
    assert p == flip_signs([Fraction(int(each), 10) for each in values[::-1]])
    own = stats.permutation_test(
        [values], np.sum, permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert p == pytest.approx(own.pvalue, abs=0.015)
    assert permute([Fraction(1)] * 4, [Fraction(1)] * 4) == 1.0


# Incomplete runs


def test_what_ended_first_is_no_random_sample():
    tasks = [f"t{i}" for i in range(10)]
    records = [*played("t0", [1] * 40), *played("t1", [1] * 31)]
    summary = summarize(records, {"s": tasks})
    assert describe_evidence(question(tasks, 40), summary) == [
        (
            "Only 71 of 400 episodes, 2 of 10 tasks, have ended. Those that end first are no "
            "random sample: short episodes come before long ones. No interval allows for that."
        )
    ]
    line = paste_line(question(tasks, 40), summary)
    assert "| 71 of 400 episodes, 2 of 10 tasks | incomplete: those that end first are no" in line
    assert "| seed 0, horizon 60 |" in line
    whole, one = question(episodes=1), summarize([won()], {"s": ["t"]})
    assert describe_evidence(whole, one) == []
    (said,) = describe_evidence(structs.replace(whole, reproducible=False), one)
    assert said.startswith("The policy draws random numbers that no seed reaches")
