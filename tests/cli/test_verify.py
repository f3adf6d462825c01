"""`envhub verify`: what it prints, and its exit codes."""

import json

import pytest
from support.forgery import change_record
from support.replays import copy_recorded, make_recorded
from support.run_tools import Answer, envhub

from envhub.cli.verify import describe
from envhub.evaluation.verify import Verdict, Verification


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_recorded(tmp_path_factory.mktemp("made") / "run", tasks="at-end,once", episodes=2)


@pytest.fixture
def run(made, tmp_path):
    return copy_recorded(made, tmp_path / "run")


def test_a_run_as_it_was_made(run):
    assert envhub("verify", run.directory) == Answer(0, f"{run.directory}: 4 identical\n", "")
    answer = envhub("verify", run.directory, "--policy", "--episodes", "all")
    assert answer.out.splitlines()[-1] == ("The policy chose the same again in 4 of 4 episodes.")


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
    found = Verification(tmp_path, (), episodes, None, machine, 0)
    lines = describe(found)
    assert lines[0] == "near:2 different: success recorded, no success here"
    assert lines[1] == "near:1 drifted: from step 4 on (reward 1.2 recorded, 1.3 here)"
    assert lines[12] == "and 10 more"
    assert lines[13] == f"{tmp_path}: 1 different, 1 drifted, 20 equivalent, 1 identical"
    assert lines[14] == "The machines differ: libc glibc 2.39 recorded, glibc 2.36 here."
    assert not found.ok


def test_drift_on_another_machine_is_told_and_no_failure(tmp_path):
    drifted = (Verdict("near", 1, "drifted", "from step 4 on", 4),)
    assert Verification(tmp_path, (), drifted, None, ("libc",), 0).ok
    assert not Verification(tmp_path, (), drifted, None, (), 0).ok
