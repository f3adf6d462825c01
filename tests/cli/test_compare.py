"""`envhub compare`: two real runs, the sentences below the table, and the exit codes."""

import json
import shutil
from dataclasses import replace

import pytest
from support.run_tools import envhub

from envhub.cli.compare import conclude, render
from envhub.results.compare import Comparison, TaskComparison


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same episodes, played by a policy that reaches the end and by one that does not move."""
    place = tmp_path_factory.mktemp("compared")
    for name, policy in (("still", "zero"), ("random", "random"), ("seeded", "zero")):
        more = ("--seed", 5) if name == "seeded" else ()
        answer = envhub(
            *("eval", "./run_walk", "--policy", policy, "--episodes", 6, "--max-steps", 30),
            *("--workers", 0, "--out", place / name, *more),
        )
        assert answer.code == 0, answer.err
    for name in ("still", "random"):
        shutil.copytree(place / name, place / f"{name}-2")
    return place


def test_two_runs(runs):
    answer = envhub("compare", runs / "still", runs / "random")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"A: {runs}/still | ./run_walk | zero\n")
    assert "only A" in answer.out
    assert "exact McNemar" in answer.out
    assert max(map(len, answer.out.split("\n\n")[1].splitlines())) <= 80


def test_json(runs):
    answer = envhub("compare", runs / "still", runs / "random", "--json", "--margin", 2)
    content = json.loads(answer.out)
    assert content["a"]["policy"] == "zero"
    assert content["b"]["run"] == str(runs / "random")
    assert content["n_a"] == content["n_b"] == 6 * len(content["tasks"])
    assert (content["margin"], type(content["not_worse_by_margin"])) == (0.02, bool)
    assert {"difference", "ci_low", "ci_high", "p", "p_tasks", "verdict"} <= content.keys()
    assert {"only_a", "only_b", "p", "p_holm", "rate_a"} <= content["tasks"][0].keys()


def test_a_page(runs, tmp_path):
    out = tmp_path / "page.html"
    answer = envhub("compare", runs / "still", runs / "random", "--html", out)
    assert (answer.code, answer.err) == (0, "")
    assert "exact McNemar" in out.read_text()
    seeded = (runs / "still", runs / "seeded", "--unpaired", "--html", out)
    assert envhub("compare", *seeded).code == 0
    assert "exact test by tasks" in out.read_text()


def test_a_run_against_itself(runs):
    answer = envhub("compare", runs / "still", runs / "still", "--fail-if", "different")
    assert answer.code == 0
    assert "No difference is shown between A and B: +0.0 points" in answer.out
    assert envhub("compare", runs / "still", runs / "still", "--fail-if", "not-better").code == 1
    words = ("--fail-if", "worse", "--margin", "0.1")
    assert envhub("compare", runs / "still", runs / "still", *words).code == 1


def test_runs_that_cannot_be_paired(runs):
    answer = envhub("compare", runs / "still", runs / "seeded")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("envhub: The runs differ in --seed (0, 5). --unpaired compares")
    unpaired = envhub("compare", runs / "still", runs / "seeded", "--unpaired")
    assert unpaired.code == 0
    assert "exact test by tasks, unpaired" in unpaired.out


@pytest.mark.parametrize("words", [("--margin", "-1"), ("--margin", "x"), ("--fail-if", "bad")])
def test_wrong_options(runs, words):
    assert envhub("compare", runs / "still", runs / "random", *words).code == 2


FOUND = Comparison(
    paired=True,
    tasks=(
        TaskComparison(
            task="near", n_a=4, n_b=4, successes_a=1, successes_b=3, only_a=0, only_b=2, p=0.5
        ),
        TaskComparison(
            task="far", n_a=3, n_b=3, successes_a=0, successes_b=0, only_a=0, only_b=0, p=1.0,
            dropped=1,
        ),
    ),
    left_out=("odd",),
    rate_a=0.125,
    rate_b=0.375,
    difference=0.25,
    ci_low=-0.05,
    ci_high=0.5,
    difference_worst=0.1,
    difference_best=0.35,
    p=0.5,
    p_tasks=None,
    verdict="undecided",
)  # fmt: skip


def test_sentences():
    first, dropped, hopeless, left_out, checkpoints, margin = conclude(FOUND, 0.1)
    assert first == (
        "No difference is shown between A and B: +25.0 points [-5.0, +50.0], p = 0.500 (exact "
        "McNemar, 7 pairs: 2 only B, 0 only A)."
    )
    assert dropped.startswith("1 pair does not count")
    assert dropped.endswith("with it the difference is +10.0 to +35.0 points.")
    assert hopeless.startswith("With 4 pairs per task, only the overall comparison can reach")
    assert checkpoints.startswith("This speaks of these checkpoints")
    assert left_out == "Not compared: odd."
    assert margin == "It is shown that B is not worse than A by more than 10 points."


def test_a_verdict_and_tasks_like_these():
    worse = replace(
        FOUND, verdict="worse", difference=-0.25, ci_high=-0.01, p=0.0003, p_tasks=0.03125
    )
    first, _, alike, *_ = conclude(worse, None)
    assert first.startswith("B is worse than A by 25.0 points [-5.0, -1.0], p = 3.0e-04 (")
    assert alike == "For tasks like these: p = 0.031 (sign flips of the tasks)."


@pytest.mark.parametrize(
    ("verdict", "ci_low", "said"),
    [
        ("undecided", -0.05, None),
        ("undecided", 0.01, "McNemar's exact test is stricter than the interval"),
        ("better", 0.01, None),
        ("better", -0.05, "counts every episode alike, the interval every task"),
    ],
)
def test_a_verdict_that_the_interval_does_not_share_is_explained(verdict, ci_low, said):
    lines = " ".join(conclude(replace(FOUND, verdict=verdict, ci_low=ci_low), None))
    assert ("exact test is" in lines or "counts every" in lines) == (said is not None)
    assert said is None or said in lines


def test_groups_of_runs(runs):
    answer = envhub(
        "compare", runs / "still", runs / "still-2", "--", runs / "random", runs / "random-2"
    )
    assert answer.code == 0, answer.err
    assert [line[:3] for line in answer.out.splitlines()[:4]] == ["A: ", "A: ", "B: ", "B: "]
    assert "Nothing is shown" in answer.out  # copies: their rates do not vary
    words = (runs / "still", runs / "still-2", "--", runs / "random", runs / "random-2", "--json")
    content = json.loads(envhub("compare", *words).out)
    assert {"rates_a", "rates_b", "difference", "ci_low", "degrees", "p", "verdict"} <= set(content)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("still",),
            "Name two runs or more, an experiment, or two groups with -- between them; found 1",
        ),
        (("still", "random", "still"), "is named 2 times: name each run once"),
        (("still", "--", "random", "random-2"), "A group needs at least two runs"),
        (("still", "still-2", "--", "random", "seeded"), "The runs differ in --seed (0, 5)"),
        (("still", "still", "--", "random", "random-2"), "still is named 2 times: each run counts"),
        (
            ("still", "still-2", "--", "random", "random-2", "--unpaired"),
            "take no option but --json",
        ),
    ],
)
def test_wrong_groups(runs, words, said):
    answer = envhub("compare", *(w if w.startswith("-") else runs / w for w in words))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_the_table():
    lines = render(FOUND).splitlines()
    assert lines[0].split() == ["A", "B", "B", "-", "A", "only", "A", "only", "B", "p", "adjusted"]
    assert lines[1].split() == ["near", "25.0%", "75.0%", "+50.0", "0", "2", "0.500"]
    assert lines[-1].split() == [
        "mean",
        "over",
        "tasks",
        "12.5%",
        "37.5%",
        "+25.0",
        "0",
        "2",
        "0.500",
    ]


@pytest.mark.parametrize("columns", [60, 80])
def test_as_wide_as_the_terminal(runs, columns):
    """Names are whole, and no row is wrapped."""
    answer = envhub("compare", runs / "still", runs / "random", COLUMNS=str(columns))
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []
    name = "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate"
    long = replace(FOUND, tasks=(replace(FOUND.tasks[0], task=name), *FOUND.tasks))
    lines = render(long, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[1] == name
    assert lines[2].split()[0].endswith("%")
    assert lines[-3 if columns == 60 else -2].strip("─") == ""
