"""The verdict of an episode that was played again."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as changed
from support.manifests import record as written

from envhub.evaluation.judge import (
    AGAIN,
    BEGINS_OTHERWISE,
    compare_machines,
    find_denied_repeats,
    judge,
)
from envhub.records import EpisodeError
from envhub.results.arrays import STEP
from envhub.results.journal import record_from_json


def altered(**changes):
    return replace(record_from_json(written("near", 0, "0"), 0), **changes)


def steps(*rewards):
    array = np.zeros(len(rewards), STEP)
    array["reward"] = rewards
    return array


@pytest.mark.parametrize(
    ("again", "rewards", "verdict", "step"),
    [
        ({}, (1.0, 2.0, 3.0), "identical", None),
        ({"trace": "x"}, (1.0, 2.0 + 1e-9, 3.0), "equivalent", 2),
        ({"trace": "x"}, (1.0, 2.0, 3.1), "drifted", 3),
        ({"trace": "x", "steps": 2}, (1.0, 2.0), "drifted", 3),
        ({"trace": "x", "success": True}, (1.0, 2.0, 3.0), "different", None),
        ({"trace": "x", "end": "terminated"}, (1.0, 2.5, 3.0), "different", 2),
        ({"out_of_bounds": 4}, (1.0, 2.0, 3.0), "tampered", None),
        ({"description": "go"}, (1.0, 2.0, 3.0), "tampered", None),
        ({"error": EpisodeError("env", "E", "no", 3)}, (1.0, 2.0, 3.0), "different", None),
    ],
)
def test_verdicts(again, rewards, verdict, step):
    found = judge(altered(), altered(**again), steps(1.0, 2.0, 3.0), steps(*rewards))
    assert (found.verdict, found.step) == (verdict, step)


@pytest.mark.parametrize(
    ("recorded", "again", "verdict"),
    [
        ({}, {"first_observation": "b"}, "identical"),  # not recorded by earlier versions
        ({"first_observation": "a"}, {"first_observation": "a"}, "identical"),
        ({"first_observation": "a"}, {"first_observation": "b"}, "drifted"),
        ({"first_observation": "a"}, {"first_observation": "a", "first_leaves": ()}, "drifted"),
        ({"first_observation": "a"}, {"first_observation": "b", "trace": "x"}, "drifted"),
        ({"first_observation": "a"}, {"first_observation": "b", "end": "terminated"}, "different"),
    ],
)
def test_the_first_observation(recorded, again, verdict):
    again = {"trace": "x"} | again if verdict == "different" else again
    found = judge(altered(**recorded), altered(**again), steps(1.0, 2.0), steps(1.0, 2.0))
    assert found.verdict == verdict
    assert (BEGINS_OTHERWISE in found.reason) == (verdict == "drifted")


def test_repeats_that_the_records_deny():
    """Another machine may draw other pictures, but not equal ones of what differed."""
    names = ("a", "b", "a", "c", None)
    recorded = {
        number: altered(number=number, episode=number, first_observation=name)
        for number, name in enumerate(names)
    }
    recorded[3] = replace(recorded[3], trace="x")
    again = [replace(one, first_observation="A") for one in recorded.values()]
    found = find_denied_repeats(recorded, again)
    assert {number: each.verdict for number, each in found.items()} == {1: "different"}
    assert found[1].reason == "here it repeats episode 0, and by its record it does not"


def failed(where="env", kind="ValueError", count=3):
    error = EpisodeError(where, kind, "no", count)
    return {"steps": count, "error": error, "end": "error", "success": None}


@pytest.mark.parametrize(
    ("where", "again", "rewards", "verdict", "reason"),
    [
        ("env", failed(), (1, 2, 3), "not checked", AGAIN),
        ("env", failed(kind="KeyError"), (1, 2, 3), "not checked", "did not occur again"),
        ("env", {"steps": 5}, (1, 2, 3, 9, 9), "not checked", "the error did not occur again"),
        ("env", failed(count=4), (1, 2, 3, 4), "not checked", "the error did not occur again"),
        ("policy", {"steps": 5}, (1, 2, 3, 9, 9), "not checked", "actions do not show"),
        ("env", {"steps": 5}, (1, 2.5, 3, 9, 9), "drifted", "from step 2 on (reward 2.0 recorded"),
        ("env", {"steps": 3}, (1, 2, 3), "different", "here it ended without an error: no succ"),
        ("env", {"steps": 2}, (1, 2), "different", "after 3 steps; here after 2: no success"),
        ("env", failed(count=0), (), "different", "here after 0: an error ended it: no"),
    ],
)
def test_episodes_that_an_error_ended(where, again, rewards, verdict, reason):
    recorded = altered(**failed(where))
    found = judge(recorded, altered(**again), steps(1, 2, 3), steps(*rewards))
    assert found.verdict == verdict
    assert reason in found.reason


def test_an_error_before_the_first_step():
    recorded = altered(**failed(count=0))
    assert judge(recorded, altered(**failed(count=0)), None, None).reason == AGAIN
    found = judge(recorded, altered(), None, steps(1, 2, 3))
    assert found.reason == "the error did not occur again"


def test_how_machines_differ(run):
    info = run.run_info
    here = changed(
        info,
        machine=changed(info.machine, libc="glibc 9.9", gl=None),
        runtime=changed(info.runtime, packages={"numpy": "0.1"}, python="3.9.9"),
    )
    said = list(compare_machines(info, here))
    assert said[0] == f"libc {info.machine.libc} recorded, glibc 9.9 here"
    assert said[-1].startswith("Python ")
    assert any(text.startswith("numpy ") and text.endswith("0.1 here") for text in said)
    assert list(compare_machines(info, info)) == []
    assert "does not say" in next(iter(compare_machines(changed(info, machine=None), info)))
