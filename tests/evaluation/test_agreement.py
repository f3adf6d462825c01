"""A policy that was made for other conventions is refused before the first episode."""

import json
import os

import pytest
from support.paths import ASSETS
from support.processes import descendants
from support.run_tools import WALK, envhub
from support.run_tools import envhub as run_command

from envhub import evaluate, open_run, verify
from envhub.api import _Callbacks
from envhub.declarations import Benchmark, Task
from envhub.errors import ContractError, ConventionsDiffer
from envhub.evaluation.agreement import OutlierLog, agree, remark_on
from envhub.evaluation.run import resume_run
from envhub.records import Episode
from envhub.results.report.content import commands, content, protocol
from envhub.types import Outlier, PolicyFacts

ARM = ASSETS / "conventions"
POLICY = f"{ARM}/env.py"
OURS = {
    "control": "ee_delta_pose",
    "rotation": "axis_angle",
    "gripper": "positive_closes",
    "frame": "world",
    "images": "upside_down",
    "state": "ee_axis_angle_gripper",
    "control_hz": 20.0,
}
OTHERS = {
    "control": "ee_pose",
    "rotation": "euler_xyz",
    "gripper": "positive_opens",
    "frame": "ee",
    "images": "upright",
    "state": "joints",
    "control_hz": 10,
}
NUMBERS = {20.0: "20", 10: "10"}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "deep" / "run"


def play(out, theirs, *, policy=POLICY, workers=0, **more):
    return evaluate(ARM, policy, policy_args=theirs, workers=workers, out=out, **more)


@pytest.mark.parametrize("key", OURS)
def test_a_policy_that_contradicts_one_is_refused_and_leaves_nothing(out, key):
    with pytest.raises(ConventionsDiffer) as caught:
        play(out, {key: OTHERS[key]})
    ours, theirs = (NUMBERS.get(side[key], side[key]) for side in (OURS, OTHERS))
    assert str(caught.value) == (
        f"The policy was made for other conventions: {key} is {ours} in arm and {theirs} in the "
        "policy. Convert what it reads and returns, or correct the declaration that is wrong; "
        "--ignore-conventions runs it all the same, and records that."
    )
    assert (caught.value.benchmark, caught.value.policy) == (OURS, {key: OTHERS[key]})
    assert not out.parent.exists()


@pytest.mark.parametrize("key", OURS)
def test_what_is_overridden_is_recorded_with_both_sides(out, key):
    run = play(out, {**OURS, key: OTHERS[key]}, ignore_conventions=True)
    assert [record.status for record in run.records()] == ["ok"]
    assert json.loads((out / "run.json").read_text())["conventions"] == {
        "ignore": True,
        "benchmark": OURS,
        "policy": {**OURS, key: OTHERS[key]},
        "overridden": [key],
    }


def test_all_that_differ_are_named(out):
    with pytest.raises(ConventionsDiffer) as caught:
        play(out, OTHERS)
    assert str(caught.value).count(" in arm and ") == len(OURS)


def test_the_same_on_both_sides(out):
    run = play(out, OURS)
    assert run.info["conventions"] == {
        "ignore": False,
        "benchmark": OURS,
        "policy": OURS,
        "overridden": [],
    }
    declared = {key: value for key, value in OURS.items() if key != "control_hz"}
    assert run.info["benchmark"]["conventions"] == declared
    assert run.info["benchmark"]["lerobot_conventions"] == {"images": "upright"}


def test_arguments_of_the_env_decide(out):
    run = play(out, {"control": "ee_pose"}, env_args={"control": "absolute"})
    assert run.info["conventions"]["benchmark"]["control"] == "ee_pose"


# Wherever the policy runs


class Closes:
    conventions = {"gripper": "positive_opens"}  # noqa: RUF012

    def act(self, obs, episodes):
        raise AssertionError("no episode begins")


@pytest.mark.parametrize(
    ("policy", "theirs"),
    [
        (POLICY, {"gripper": "width"}),
        (POLICY, {"gripper": "width", "placement": "worker"}),
        ("expert", {"gripper": "width"}),
    ],
)
def test_in_a_process_and_in_the_worker(out, policy, theirs):
    with pytest.raises(ConventionsDiffer, match="gripper is positive_closes in arm and width in"):
        play(out, theirs, policy=policy, workers=1)
    assert not out.parent.exists()
    assert not descendants(os.getpid())


def test_an_object(out):
    with pytest.raises(ConventionsDiffer, match="gripper is positive_closes in arm and positive_o"):
        evaluate(ARM, Closes(), workers=0, out=out)
    assert not out.parent.exists()


def test_a_declaration_that_is_none(out):
    with pytest.raises(ContractError) as caught:
        play(out, {"gripper": "closes"}, workers=1)
    assert "Declares: the convention gripper is 'closes', which is not one of" in str(caught.value)


def test_a_directory_that_was_there_holds_no_run(out):
    out.mkdir(parents=True)
    with pytest.raises(ConventionsDiffer):
        play(out, {"gripper": "width"}, resume=True)
    assert not (out / "run.json").exists()
    assert play(out, OURS).complete


# What is said


def test_the_command(tmp_path):
    words = ("eval", "./conventions", "--policy", POLICY, "--workers", 0, "--out", tmp_path / "run")
    refused = run_command(*words, "--policy-arg", "gripper=width")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("envhub: The policy was made for other conventions: gripper is ")
    assert not (tmp_path / "run").exists()
    played = run_command(*words, "--policy-arg", "gripper=width", "--ignore-conventions")
    both = "gripper is positive_closes in arm and width in the policy"
    assert played.code == 0
    assert played.err.count(f"Ignoring conventions: {both}.\n") == 1
    assert f"\nConventions were ignored: {both}.\n" in played.out
    shown = run_command("show", tmp_path / "run")
    assert f"\nConventions were ignored: {both}.\n" in shown.out
    content = json.loads(run_command("show", tmp_path / "run", "--json").out)
    assert content["conventions"]["overridden"] == ["gripper"]


@pytest.mark.parametrize(
    ("policy", "theirs", "said"),
    [
        (
            POLICY,
            [],
            "The policy declares no conventions to compare with those of arm, which",
        ),
        (
            POLICY,
            ["gripper=positive_closes"],
            "only arm declares control, rotation, frame, images,",
        ),
        ("random", [], None),
        ("zero", [], None),
        ("expert", [], None),
    ],
)
def test_silence_is_one_line(tmp_path, policy, theirs, said):
    args = [word for text in theirs for word in ("--policy-arg", text)]
    words = ("eval", "./conventions", "--policy", policy, "--workers", 1, "--out", tmp_path / "run")
    answer = run_command(*words, *args)
    assert answer.code == 0
    lines = [line for line in answer.err.splitlines() if "convention" in line]
    assert len(lines) == (said is not None)
    assert said is None or said in lines[0]
    if said is not None:
        words = (*words[:-1], tmp_path / "silent", "--quiet")
        assert "convention" not in run_command(*words, *args).err


def test_an_experiment_says_it_once_for_each_policy_and_benchmark(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'seeds = [0, 1, 2]\n[policies]\nmine = "{POLICY}"\nidle = "zero"\n'
        f'[benchmarks.arm]\nref = "{ARM}"\n'
    )
    answer = run_command("eval", path, "--out", tmp_path / "out", "--workers", 2)
    assert answer.code == 0, answer.err
    [line] = [line for line in answer.err.splitlines() if "declares no conventions" in line]
    assert line.startswith("mine on arm, seed ")
    quiet = run_command("eval", path, "--out", tmp_path / "quiet", "--workers", 2, "--quiet")
    assert (quiet.code, "convention" in quiet.err) == (0, False)


def facts(format_="raw", **conventions):
    return PolicyFacts("process", None, format_, 1, conventions=conventions)


def benchmark(**declared):
    return Benchmark("walk", ":make", {"all": (Task("near", "near", 5),)}, **declared)


@pytest.mark.parametrize(
    ("declared", "theirs", "said"),
    [
        ({}, {}, None),
        ({"control_hz": 5.0}, {}, None),
        (
            {},
            {"frame": "ee"},
            "walk declares no conventions to compare with those of the policy: frame ee.",
        ),
        (
            {"conventions": {"frame": "ee"}, "control_hz": 5.0},
            {},
            (
                "The policy declares no conventions to compare with those of walk, which "
                "`envhub info` shows."
            ),
        ),
        (
            {"conventions": {"frame": "ee", "images": "upright"}},
            {"frame": "ee", "state": "joints", "control_hz": 2.0},
            (
                "Some conventions are not compared: only walk declares images; only the policy "
                "declares state, control_hz."
            ),
        ),
        ({"conventions": {"frame": "ee"}}, {"frame": "ee"}, None),
    ],
)
def test_what_one_side_alone_declares(declared, theirs, said):
    made = benchmark(**declared)
    found = agree(made, facts(**theirs), ignore=False)
    assert remark_on(found, made, own=False) == said
    assert remark_on(found, made, own=True) is None


def test_policies_of_lerobots_format_are_compared_with_what_is_converted():
    made = benchmark(
        conventions={"images": "upside_down", "frame": "ee"},
        lerobot="walk:convert",
        lerobot_conventions={"images": "upright"},
    )
    theirs = {"images": "upright", "frame": "ee"}
    assert agree(made, facts("lerobot", **theirs), ignore=False).benchmark == theirs
    with pytest.raises(ConventionsDiffer, match="images is upside_down in walk and upright in"):
        agree(made, facts(**theirs), ignore=False)


def test_a_process_that_sends_something_else_is_not_believed():
    with pytest.raises(ContractError, match="The policy: conventions has the key 'x'"):
        agree(benchmark(), facts(x="y"), ignore=True)


# What a run keeps


def test_resuming_verifying_and_the_report(out):
    run = play(out, {"gripper": "width"}, ignore_conventions=True, workers=1, episodes=2)
    before = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text(before[0])
    assert resume_run(out, 1, _Callbacks()).info["conventions"] == run.info["conventions"]
    again = verify(out, policy=True, workers=1)
    assert {verdict.verdict for verdict in (*again.episodes, *again.policy)} == {"identical"}
    rows = dict(protocol(open_run(out)))
    assert rows["Conventions of the benchmark"].startswith("control ee_delta_pose, rotation axis")
    assert rows["Conventions of the policy"] == "gripper width"
    assert rows["Conventions that were ignored"].startswith("gripper is positive_closes in arm and")
    assert " --ignore-conventions " in dict(commands(open_run(out)))["Run it again"]
    (out / "episodes.jsonl").write_text(before[0])
    with pytest.raises(ConventionsDiffer):
        play(out, {"gripper": "width"}, episodes=2, resume=True)
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 1


def test_a_run_from_before_there_were_conventions(out):
    from envhub.results.format1 import hash_protocol
    from envhub.results.seal import seal

    walk = ASSETS / "run_walk"
    now = evaluate(walk, "zero", tasks="near", episodes=2, max_steps=2, workers=0, out=out)
    info = json.loads((out / "run.json").read_text())
    assert info["conventions"]["benchmark"] == info["benchmark"]["conventions"] == {}
    for key in ("conventions", "lerobot_conventions"):
        del info["benchmark"][key]
    del info["conventions"]
    info |= {"format": 1, "protocol": hash_protocol(now.run_info)}
    info["policy"]["kind"] = "named"
    (out / "run.json").write_text(json.dumps(seal(info)))
    assert verify(out, workers=1).ok
    assert "Conventions of the benchmark" not in dict(protocol(open_run(out)))
    text = (out / "episodes.jsonl").read_text()
    (out / "episodes.jsonl").write_text(text[: text.index("\n") + 1])
    resumed = resume_run(out, 0, _Callbacks())
    assert resumed.complete
    assert resumed.info["protocol"] == now.info["protocol"]
    assert resumed.info["conventions"]["ignore"] is False


STATEFUL = '''
import numpy as np

from envhub.types import Outlier

STATISTICS = {"mean": 0.5, "std": 0.1}


class Reports:
    """Reports each first look at an episode 0, as a checkpoint with odd statistics would."""

    def __init__(self):
        self._found = []

    def act(self, obs, episodes):
        for row, episode in zip(obs, episodes, strict=True):
            if episode.index == 0 and episode.step == 0 and episode.task != "near":
                value = float(row[1])
                self._found.append(Outlier(episode.task, "observation.state", 1, value, STATISTICS))
        return np.zeros((len(episodes), 1), np.float32)

    def take_outliers(self):
        found, self._found = tuple(self._found), []
        return found


def make_policy(benchmark, observation_space, action_space):
    return Reports()
'''
STATISTICS = {"mean": 0.5, "std": 0.1}
RECORDED = {
    "task": "back",
    "feature": "observation.state",
    "index": 1,
    "value": pytest.approx(-0.4),
    "statistics": STATISTICS,
}
SAID = (
    "observation.state[1] is -0.4 in task back, far outside the checkpoint's statistics (mean 0.5, "
    "std 0.1): it may have been trained with another state, other units or another robot."
)


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "policy.py").write_text(STATEFUL)
    return tmp_path / "policy.py"


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_they_are_told_and_recorded_alike_for_any_workers(policy, tmp_path, workers):
    words = ("--suite", "short", "--suite", "long", "--episodes", 2, "--max-steps", 3)
    out = tmp_path / "run"
    answer = envhub(*("eval", WALK, "--policy", policy, *words, "--workers", workers, "--out", out))
    assert answer.code == 0
    assert [line for line in answer.err.splitlines() if "outside" in line] == [SAID]
    assert json.loads((out / "run.json").read_text())["policy"]["outliers"] == [RECORDED]
    assert SAID in content(open_run(out))["notes"]


def test_a_resumed_run_keeps_them(policy, tmp_path):
    question = {"suites": ["short"], "episodes": 2, "max_steps": 3, "workers": 0}
    out = tmp_path / "run"
    evaluate(WALK, policy, **question, out=out)
    lines = (out / "episodes.jsonl").read_text().splitlines(keepends=True)
    (out / "episodes.jsonl").write_text("".join(lines[:-1]))
    run = evaluate(WALK, policy, **question, out=out, resume=True)
    assert run.complete
    assert run.info["policy"]["outliers"] == [RECORDED]


# The log


def plan(*tasks):
    return tuple(
        Episode(2 * at + index, "suite", task, index, index, None)
        for at, task in enumerate(tasks)
        for index in (0, 1)
    )


def outlier(task, index=0, value=9.0):
    return Outlier(task, "observation.state", index, value, STATISTICS)


def test_the_first_of_the_plan_is_told_whichever_comes_first():
    log = OutlierLog(plan("a", "b", "c"), plan("a", "b", "c"))
    log.add([outlier("c"), outlier("b", 3)])
    assert log.take_remark() is None  # a may have one, too
    log.add([outlier("b", 1)])
    log.ended(0)
    assert "observation.state[3] is 9 in task b" in log.take_remark()
    log.add([outlier("a", 5)])
    assert log.take_remark() is None  # one line is enough


def test_each_number_is_recorded_once_by_the_first_task():
    log = OutlierLog(plan("a", "b"), plan("a", "b"))
    log.add([outlier("b", 1), outlier("b", 0), outlier("a", 1, 5.0), outlier("a", 1, 6.0)])
    assert [(one.task, one.index, one.value) for one in log.info([])] == [
        ("b", 0, 9.0),
        ("a", 1, 5.0),
    ]
    before = OutlierLog(plan("a", "b"), ()).info([])
    assert before == []
    assert log.info(log.info([])) == log.info([])


def test_there_are_at_most_twenty_and_only_of_the_plan():
    log = OutlierLog(plan("a"), plan("a"))
    log.add(outlier("a", index) for index in range(99))
    log.add([outlier("z")])
    assert len(log.info([])) == 20
    assert {one.task for one in log.info([])} == {"a"}
