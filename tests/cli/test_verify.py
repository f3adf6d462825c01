"""`envhub verify`: what it prints, and its exit codes."""

import json

import pytest
from support.forgery import change_record, remove_record, summarize_again
from support.replays import copy_recorded, make_recorded
from support.run_tools import Answer, envhub

from envhub.cli.verify import describe
from envhub.evaluation.judge import Verdict
from envhub.evaluation.verify import Verification


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_recorded(tmp_path_factory.mktemp("made") / "run", tasks="at-end,once", episodes=2)


@pytest.fixture
def run(made, tmp_path):
    return copy_recorded(made, tmp_path / "run")


def test_a_run_as_it_was_made(run):
    answer = envhub("verify", run.directory, "--seed", 7)
    assert answer == Answer(0, f"{run.directory}: 4 identical\n{ALL}\n", "")
    answer = envhub("verify", run.directory, "--policy", "--episodes", "all")
    assert answer.out.splitlines()[-1] == ("The policy chose the same again in 4 of 4 episodes.")
    lines = envhub("verify", run.directory, COLUMNS="60").out.splitlines()
    assert [line for line in lines if len(line) > 60 and str(run.directory) not in line] == []
    assert len(lines) > 3


ALL = (
    "4 of 4 ended episodes were played again, chosen by seed 7: at most 0/4 (0.0 %) may be false, "
    "95 %."
)


def test_episodes_that_are_gone(run):
    remove_record(run, 0)
    summarize_again(run)
    answer = envhub("verify", run.directory)
    assert (answer.code, answer.err) == (0, "")
    first, _, last = answer.out.splitlines()
    assert first == f"{run.directory}: incomplete, 3 of 4 episodes recorded; 3 identical"
    assert last == "1 episode without a record could hide failures."
    assert json.loads(envhub("verify", run.directory, "--json").out)["complete"] is False
    (run.directory / "actions" / "1.npy").unlink()
    answer = envhub("verify", run.directory)
    assert answer.code == 1
    assert answer.out.splitlines()[0] == "at-end:1 missing: its actions or steps are missing"


def test_a_forged_one(run):
    change_record(run, 3, return_=1.0)
    answer = envhub("verify", run.directory)
    assert (answer.code, answer.err) == (1, "")
    first, second, last = answer.out.splitlines()
    assert first == "summary.json is not what the records give in tasks, suites, overall."
    assert second.startswith("once:1 tampered: its return is 1.0, and its stored steps say ")
    assert last == f"{run.directory}: 1 tampered, 3 not checked"


def test_json(run):
    answer = envhub("verify", run.directory, "--json", "--task", "once", "--seed", 3)
    content = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert (content["ok"], content["verdict"], content["sample_seed"]) == (True, "not checked", 3)
    assert (content["counts"]["identical"], content["policy"]) == (2, None)
    assert (content["complete"], content["ended"], content["most_false"]) == (True, 2, 0)
    assert content["episodes"][2] == {
        "task": "once",
        "episode": 0,
        "verdict": "identical",
        "reason": "",
        "step": None,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--episodes", "0"), "--episodes must be a number or all, found '0'."),
        (("--episodes", "x"), "--episodes must be a number or all"),
        (("--task", "far"), "No task is called 'far'."),
        (("--workers", "0"), "'--workers'"),
    ],
)
def test_wrong_options(run, words, said):
    answer = envhub("verify", run.directory, *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_where_there_is_no_run(tmp_path):
    answer = envhub("verify", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "is not a run" in answer.err


def test_the_worst_comes_first_and_machines_are_named(tmp_path):
    episodes = (
        Verdict("near", 0, "identical"),
        Verdict("near", 1, "drifted", "from step 4 on (reward 1.2 recorded, 1.3 here)", 4),
        Verdict("near", 2, "different", "success recorded, no success here"),
        *(Verdict("far", n, "equivalent", "from step 1 on") for n in range(20)),
    )
    machine = ("libc glibc 2.39 recorded, glibc 2.36 here",)
    found = verification(tmp_path, episodes=episodes, machine=machine)
    lines = describe(found)
    assert lines[0] == "near:2 different: success recorded, no success here"
    assert lines[1] == "near:1 drifted: from step 4 on (reward 1.2 recorded, 1.3 here)"
    assert lines[12] == "and 10 more"
    assert lines[13] == f"{tmp_path}: 1 different, 1 drifted, 20 equivalent, 1 identical"
    assert lines[14] == "The machines differ: libc glibc 2.39 recorded, glibc 2.36 here."
    assert not found.ok


def verification(tmp_path, **values):
    return Verification(tmp_path, len(values["episodes"]), 0, **values)


def test_an_excused_drift_is_told_and_no_failure(tmp_path):
    drifted = (Verdict("near", 1, "drifted", "from step 4 on", 4),)
    found = verification(tmp_path, episodes=drifted, machine=("libc",), drift_is_excused=True)
    assert found.ok
    told = "Of drifted episodes the success is confirmed, and their return is not."
    assert told in describe(found)
    assert not verification(tmp_path, episodes=drifted, machine=("libc",)).ok


def test_what_stays_open_is_said(tmp_path):
    episodes = (Verdict("near", 0, "identical"),) * 1000
    numbers = {"ended": 1000, "checked": 50, "lost": 3, "unconfirmed": 2, "policy_errors": 1}
    found = verification(tmp_path, episodes=episodes, **numbers)
    assert describe(found)[1:] == [
        (
            "50 of 1000 ended episodes were played again, chosen by seed 0: at most 56/1000 "
            "(5.6 %) may be false, 95 %."
        ),
        (
            "3 episodes not counted, for an error of the env; in 2 the error did not occur again, "
            "or was not tried: they could hide failures."
        ),
        "1 episode failed by an error of the policy: not checked.",
    ]


def test_text_of_the_run_stays_on_its_line(tmp_path):
    hostile = "no\nrun: 4 identical\r\x1b[2J\u202e\u2028\t" + 500 * "x"
    episodes = (Verdict("near", 0, "different", hostile),)
    baseline = verification(tmp_path, episodes=episodes, problems=(hostile,))
    found = verification(
        tmp_path, episodes=episodes, machine=(hostile,), problems=(hostile,),
        baselines={"zero": baseline},
    )  # fmt: skip
    lines = describe(found)
    assert len(lines) == 7
    for line in lines:
        assert line.isprintable()
        assert not line.startswith("run: ")
    assert lines[0].startswith(r"no\nrun: 4 identical\r\x1b[2J\u202e\u2028\txxx")
    assert lines[4].startswith("baseline zero: no")
    assert len(lines[1]) < 500
