"""What a report says."""

import json

import pytest

from envhub.results.report.content import commands, content, groups, protocol
from envhub.results.run import open_run


@pytest.fixture
def run(make_run):
    return open_run(make_run("run", near="110pe0", far="111111"))


def test_the_verdict_and_the_tasks(run):
    said = content(run)
    assert (said["benchmark"], said["policy"]) == ("./env", "zero")
    assert said["notes"][0].startswith("Only 12 of 20 episodes have ended.")
    assert said["line"].startswith("./env | policy zero | protocol ")
    near, far = said["suites"][0]["tasks"]
    assert (near["line"].successes, near["line"].n, near["failures"]) == (2, 5, 4)
    assert (far["failures"], far["steps"]) == (0, "3")
    assert near["label"] == "2 of 6 succeeded; failed: 2, 3, 5; 1 ended by an error of the env."


def test_failures_are_grouped_by_how_they_ended(run):
    found = {group["name"]: group for group in groups(run.records())}
    assert set(found) == {"truncated", "policy_error: ValueError", "env_error: ValueError"}
    assert found["truncated"]["tasks"] == [("near", [2, 5])]
    assert found["policy_error: ValueError"]["example"] == "no"


def test_many_failures_are_counted(make_run):
    def many(info):
        info["plan"]["episodes"] = 90

    run = open_run(make_run("many", many, near="0" * 90))
    (group,) = groups(run.records())
    ((task, episodes),) = group["tasks"]
    assert (task, group["count"], len(episodes), group["more"]) == ("near", 90, 60, 30)


def test_how_long_the_policy_took(make_run):
    def measured(info):
        info["policy"]["latency"] = {"calls": 1200, "p50": 0.0031, "p95": 0.01234, "counts": {}}

    said = content(open_run(make_run("run", measured, near="1")))
    assert said["notes"][1:] == [
        "The policy took 3.1 ms to act (median of 1,200 calls; p95 12.3 ms)."
    ]


def test_failures_at_the_horizon(make_run):
    def short(info):
        info["plan"]["tasks"]["near"]["horizon"] = 3

    said = content(open_run(make_run("short", short, near="0010")))
    assert said["notes"][1:] == ["3 of 3 failures ended at the horizon."]


def test_the_data_of_the_script(run):
    data = content(run)["data"]
    near, far = data["tasks"]
    assert near[:6] == ["near", "", 0, "ssffef", 3, 1.0]
    assert near[6] == [record.seed for record in run.records() if record.task == "near"]
    assert near[7:] == [{}, {3: 0, 4: 1}]
    assert data["errors"] == [
        "ValueError in the policy at step 1: no",
        "ValueError in the env at step 1: no",
    ]
    assert far[3] == "ssssss"


def test_what_differs_between_episodes_is_told_of_each(make_run):
    """Steps, returns and seeds; a first success that is not the end; an episode that is missing."""

    def told(info):
        info["plan"]["seeding"] = "shared"
        info["plan"]["tasks"]["near"] |= {"horizon": 9, "description": "Go there."}

    path = make_run("run", told, near="1 1")
    records = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
    records[0] |= {"steps": 9, "success_step": 4, "return": -0.5}
    (path / "episodes.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    found = content(open_run(path))["data"]["tasks"][0]
    assert found == ["near", "Go there.", 0, "s s", [9, 3], [-0.5, 1.0], 0, {0: 4}, {}]


@pytest.mark.parametrize(
    ("name", "instruction", "shown"),
    [
        ("KITCHEN_SCENE3_turn_on_the_stove", "turn on the stove", ""),
        ("door-open-v3", "Open the door.", "Open the door."),
        ("near", "", ""),
    ],
)
def test_an_instruction_is_shown_unless_the_name_says_it(make_run, name, instruction, shown):
    def named(info):
        info["plan"]["tasks"] = {
            name: {"horizon": 9, "success": "once", "init_states": 0, "description": instruction}
        }
        info["plan"]["suites"] = {"s": [name]}

    said = content(open_run(make_run("run", named, **{name: "1"})))
    assert said["suites"][0]["tasks"][0]["instruction"] == shown


def test_success_that_no_task_reports(make_run):
    said = content(open_run(make_run("none", near="??")))
    assert (said["overall"].rate, said["axis_place"], said["groups"]) == (None, None, [])
    assert said["suites"][0]["tasks"][0]["label"] == "2 episodes; success is not reported."


def test_a_run_without_episodes(make_run):
    said = content(open_run(make_run("begun")))
    assert said["bars"] == []


def test_the_command_that_repeats_a_run(make_run):
    def change(info):
        info["benchmark"]["env_args"] = {"size": 3, "name": "a b"}
        info["policy"] |= {"ref": "./my policy.py", "args": {"deep": [1]}}
        info["plan"]["max_steps"] = 9

    run = open_run(make_run("args", change, near="1"))
    assert dict(commands(run))["Run it again"] == (
        "envhub eval ./env --policy './my policy.py' --suite s --episodes 10 --seed 0 "
        "--max-steps 9 --env-arg size=3 --env-arg 'name=a b' "
        "--policy-arg 'deep=[1]'"
    )


def test_a_policy_object_cannot_be_named_again(make_run):
    def change(info):
        info["policy"]["kind"] = "object"

    assert [name for name, _ in commands(open_run(make_run("object", change, near="1")))] == [
        "Verify it",
        "Show it again",
    ]


def test_the_sandbox(make_run):
    def change(info):
        info["protection"]["sandbox"] = "landlock"

    run = open_run(make_run("kept", change, near="1"))
    assert dict(protocol(run))["Sandbox"] == "landlock"
