"""Two runs held against each other: what is paired, what is dropped, what is concluded."""

import pytest
from support.manifests import INFO

import envhub
from envhub.errors import RunDirectoryError, UsageError
from envhub.results.compare import compare


def test_pairs_are_counted_by_task(make_run):
    a = make_run("a", near="1100110011", far="0000000000")
    b = make_run("b", near="1111110000", far="1111111100")
    found = compare(a, b)
    near, far = found.tasks
    assert (near.n_a, near.successes_a, near.successes_b, near.only_a, near.only_b) == (
        10, 6, 6, 2, 2,
    )  # fmt: skip
    assert (far.only_a, far.only_b, far.p) == (0, 8, 2 / 2**8)
    assert (found.rate_a, found.rate_b) == pytest.approx((0.3, 0.7))
    assert found.difference == pytest.approx(0.4)
    assert (found.verdict, found.dropped, found.left_out) == ("better", 0, ())
    assert found.ci_low < 0.4 < found.ci_high
    assert (near.p_holm, far.p_holm) == (1.0, 4 / 2**8)
    assert compare(b, a).verdict == "worse"
    assert compare(b, a).p == found.p


def test_runs_and_directories_are_both_understood(make_run):
    a, b = make_run("a", near="10"), make_run("b", near="11")
    assert envhub.compare(envhub.open_run(a), str(b)) == envhub.compare(a, b)


def test_a_policy_that_raises_has_failed_and_an_env_that_fails_drops_the_pair(make_run):
    found = compare(make_run("a", near="1111111111"), make_run("b", near="11p1e11 11"))
    (near,) = found.tasks
    assert (near.n_b, near.only_a, near.dropped) == (8, 1, 2)
    assert (found.difference_worst, found.difference_best) == pytest.approx((-0.3, 0.1))
    assert found.left_out == ("far",)


def test_other_numbers_of_episodes_meet_in_the_first(make_run):
    def fewer(info):
        info["plan"]["episodes"] = 4

    found = compare(make_run("a", near="1111000000"), make_run("b", fewer, near="1110"))
    assert (found.tasks[0].n_a, found.dropped) == (4, 0)


def test_a_task_that_only_one_run_has_is_left_out(make_run):
    def alone(info):
        del info["plan"]["tasks"]["far"]
        info["plan"]["suites"] = {"s": ["near"]}

    a, b = make_run("a", near="10", far="11"), make_run("b", alone, near="11")
    assert compare(a, b).left_out == ("far",)


@pytest.mark.parametrize("paired", [True, False])
def test_nothing_in_common(make_run, paired):
    for name, first, second in (("x", "??", "11"), ("y", "ee", "11")):
        a, b = make_run(f"a{name}", near=first), make_run(f"b{name}", far=second)
        with pytest.raises(UsageError, match="no episode in common whose success is known"):
            compare(a, b, paired=paired)


def test_success_that_is_reported_only_when_there_is_one(make_run):
    found = compare(make_run("a", near="?1"), make_run("b", near="11"))
    assert (found.tasks[0].successes_a, found.tasks[0].only_b) == (1, 1)


def test_unpaired(make_run):
    def another(info):
        info["plan"]["seed"] = 7

    a = make_run("a", near="1100110000", far="0000000000")
    b = make_run("b", near="1111111111", far="1111111100")
    found = compare(a, b, paired=False)
    assert (found.paired, found.verdict, found.p_tasks) == (False, "better", None)
    assert found.tasks[0].only_a is None
    assert found.ci_low < found.difference < found.ci_high
    assert "only_a" not in found.to_json() or found.to_json()["only_a"] is None


def test_six_tasks_also_speak_of_tasks_like_these(make_run):
    names = [f"t{i}" for i in range(6)]

    def six(info):
        info["plan"]["tasks"] = dict.fromkeys(names, INFO["plan"]["tasks"]["near"])
        info["plan"]["suites"] = {"s": names}

    a = make_run("a", six, **dict.fromkeys(names, "0000"))
    b = make_run("b", six, **dict.fromkeys(names, "1110"))
    assert compare(a, b).p_tasks == 2 / 2**6


def test_where_there_is_no_run(tmp_path, make_run):
    with pytest.raises(RunDirectoryError, match=r"has no run\.json"):
        compare(tmp_path, make_run("a", near="1"))


def test_margin(make_run):
    found = compare(make_run("a", near="1" * 10), make_run("b", near="1" * 10))
    assert found.not_worse_by(0.9)
    assert not found.not_worse_by(0.01)


def test_lost_episodes_count_against_what_a_gate_claims(make_run):
    """Ten successes that are not there anymore cannot make B as good as A."""
    a = make_run("a", near="1111111111", far="1111111111")
    b = make_run("b", near="1111111111", far="eeeeeeeeee")
    found = compare(a, b)
    assert (found.verdict, found.left_out) == ("undecided", ("far",))
    assert found.worst.verdict == "worse"
    assert (found.worst.difference, found.best.difference) == (-0.5, 0.5)
    assert (found.is_worse(), found.is_better(), found.is_different()) == (True, False, True)
    assert not found.not_worse_by(0.2)
    assert found.to_json()["worst"]["verdict"] == "worse"
    better = compare(b, a)
    assert not better.is_better()
    whole = compare(a, a)
    assert (whole.worst, whole.best, whole.is_worse(), whole.is_different()) == (
        None, None, False, False,
    )  # fmt: skip


def test_lost_episodes_of_runs_that_are_not_paired(make_run):
    a, b = make_run("a", near="1111111111"), make_run("b", near="11111 eeee")
    found = compare(a, b, paired=False)
    assert (found.tasks[0].lost_a, found.tasks[0].lost_b) == (0, 5)
    assert (found.worst.rate_b, found.best.rate_b) == (0.5, 1.0)
    assert found.is_worse()


def test_unpaired_tasks_played_unequally_often_show_nothing(make_run):
    """Pooled, 10 of 20 would stand against 11 of 20 the other way round."""

    def many(info):
        info["plan"]["episodes"] = 20

    a = make_run("a", many, near="1" * 18 + "00", far="1" + "0" * 9 + " " * 10)
    b = make_run("b", many, near="1" * 9 + "0" + " " * 10, far="11" + "0" * 18)
    found = compare(a, b, paired=False)
    assert found.difference == pytest.approx(0.0)
    assert (found.verdict, found.p) == ("undecided", pytest.approx(1.0))
