"""The line to paste, and the header above the table."""

import pytest
from support.episodes import env_error, lost, policy_error, silent, won
from support.run_json import MANIFEST, info_of

from envhub.results.paste import header, paste_line
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
