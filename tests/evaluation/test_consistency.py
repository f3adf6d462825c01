"""A run whose files contradict each other is found without running anything."""

import json

import numpy as np
import pytest
from msgspec import convert
from support.forgery import (
    agree,
    change_actions,
    change_manifest,
    change_record,
    change_steps,
    load_arrays,
    save_arrays,
)
from support.manifests import write_run

import envhub
from envhub.evaluation.consistency import (
    find_contradiction,
    find_problems,
    former_summary,
    is_former,
)
from envhub.results.arrays import read_arrays
from envhub.results.run import open_run
from envhub.results.statistics import stratified, wilson
from envhub.results.summary import to_json
from envhub.run_info import RunInfo, hash_protocol


def contradiction(run, record):
    stored = read_arrays(run.directory, record.number)
    return find_contradiction(record, stored, run.run_info.plan.tasks[record.task])


def contradictions(run):
    run = open_run(run.directory)
    found = {record.number: contradiction(run, record) for record in run.records()}
    return {number: text for number, text in found.items() if text is not None}


def test_a_run_as_it_was_made(run):
    assert find_problems(run) == []
    assert contradictions(run) == {}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"success": "other"}, "its success is"),
        ({"return_": 1.0}, "its return is 1.0, and its stored steps say"),
        ({"steps": 2}, "it has 2 steps, 9 stored actions and 9 stored rewards"),
        ({"success_step": 1}, "its success_step is 1, and its stored steps say"),
        ({"end": "terminated"}, "its end is terminated, and its stored steps say truncated"),
        ({"trace": "sha256:00"}, "its trace is not the hash"),
        ({"status": "env_error"}, "its status is env_error, and the rest of it says otherwise"),
    ],
)
def test_a_changed_record(run, values, said):
    if values.get("success") == "other":
        values = {"success": not run.records()[0].success}
    change_record(run, 0, **values)
    (text,) = contradictions(run).values()
    assert said in text


def test_a_failure_declared_an_error_of_the_env(run):
    """It would no longer count."""
    error = {"where": "env", "type": "ValueError", "message": "no", "step": 9}
    change_record(run, 0, status="env_error", success=None, end="error", error=error)
    assert contradictions(run) == {0: "its error came after the episode had ended"}


def test_changed_arrays(run):
    trace = "its trace is not the hash of its stored actions, rewards and flags"

    def act(array):
        array[1] += 0.5

    def reward(array):
        array["reward"][2] += 1e-9

    change_actions(run, 0, act)
    change_steps(run, 1, reward)
    assert contradictions(run) == {0: trace, 1: trace}


@pytest.mark.parametrize("name", ["success", "terminated", "truncated"])
def test_a_changed_flag(run, name):
    def flip(array):
        array[name][-1] = not array[name][-1]

    change_steps(run, 0, flip)
    assert contradictions(run) == {
        0: "its trace is not the hash of its stored actions, rewards and flags"
    }


def test_swapped_files(run):
    one, other = (run.directory / "actions" / f"{number}.npy" for number in (0, 1))
    (a, b) = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)
    assert set(contradictions(run)) == {0, 1}


def test_steps_after_the_end(run):
    """The trace may be made anew; the rule for an episode's end cannot."""
    longer = [np.concatenate([array, array[-1:]]) for array in load_arrays(run.directory, 0)]
    save_arrays(run.directory, 0, *longer)
    agree(run, 0)
    assert contradictions(run) == {0: "by its stored steps it had ended after 9 steps"}


def test_files_that_are_gone(run):
    path = run.directory / "actions" / "0.npy"
    np.save(path, load_arrays(run.directory, 0)[0])  # without the steps
    with pytest.raises(FileNotFoundError, match="its actions or steps are missing"):
        contradiction(run, run.records()[0])
    path.unlink()
    with pytest.raises(FileNotFoundError, match="its actions or steps are missing"):
        contradiction(run, run.records()[0])


@pytest.mark.parametrize("part", ["overall", "tasks"])
def test_a_changed_summary(run, part):
    path = run.directory / "summary.json"
    content = json.loads(path.read_text())
    line = content[part] if part == "overall" else content[part][0]
    line["rate"] = 0.987
    path.write_text(json.dumps(content))
    assert find_problems(run) == [f"summary.json is not what the records give in {part}."]
    path.write_text("[")
    assert find_problems(run)[0].startswith("summary.json cannot be read")
    path.unlink()
    assert find_problems(run) == []


def test_an_episode_that_was_played_until_it_went_well(run):
    path = run.directory / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[0]]))
    assert find_problems(run) == ["More than one record that ended well: at-end:0."]


def test_a_digest_that_covered_every_file(run):
    def with_readme(info):
        info["benchmark"]["files"]["README.md"] = "sha256:5"
        info["protocol"] = hash_protocol(convert(info, RunInfo), every_file=True)

    change_manifest(run.directory, with_readme)
    assert find_problems(open_run(run.directory)) == []


def test_a_protocol_of_something_else(run):
    change_manifest(run.directory, lambda info: info["runtime"]["packages"].update(mujoco="9"))
    assert find_problems(open_run(run.directory)) == [
        "The protocol in run.json is not the hash of what it stands for."
    ]


NAMES = [f"t{i}" for i in range(6)]


@pytest.fixture
def earlier(tmp_path):
    """A run with repeats and shared seeds, of six tasks."""

    def change(info):
        info["plan"]["seeding"] = "shared"
        info["plan"]["tasks"] = dict.fromkeys(NAMES, info["plan"]["tasks"]["near"])
        info["plan"]["suites"] = {"s": NAMES}

    place = write_run(tmp_path / "run", change, **dict.fromkeys(NAMES, "1110111011"))
    path = place / "episodes.jsonl"
    began = '{"first_observation": "sha256:1", '
    path.write_text(
        "".join(began + line[1:] for line in path.read_text().splitlines(keepends=True))
    )
    return envhub.open_run(place)


def problems(earlier, content):
    (earlier.directory / "summary.json").write_text(json.dumps(content))
    return [each for each in find_problems(earlier) if "summary.json" in each]


def test_it_is_checked_by_the_formulas_of_then(earlier):
    then = former_summary(earlier.records(), earlier.suites)
    assert is_former(then)
    assert then["overall"]["ci_low"] == stratified([(8, 10)] * 6).low
    assert then["tasks"][0]["ci_low"] == wilson(8, 10)[0]
    assert problems(earlier, then) == []
    for key in ("ci_low", "ci_low_tasks", "rate", "n_effective"):
        forged = json.loads(json.dumps(then))
        forged["overall"][key] = 0.99
        assert problems(earlier, forged) == [
            "summary.json is not what the records give in overall."
        ]


def test_todays_is_checked_by_todays(earlier):
    now = to_json(earlier.summary())
    assert not is_former(now)
    assert problems(earlier, now) == []
    assert now["overall"]["n_distinct"] == 6
    assert (
        earlier.summary().overall.ci_low
        < former_summary(earlier.records(), earlier.suites)["overall"]["ci_low"]
    )
