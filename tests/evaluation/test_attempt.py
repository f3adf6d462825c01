"""What becomes of steps: returns, successes, ends, traces. The host alone computes them."""

import itertools
import math

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from envhub.declarations import Task
from envhub.errors import ContractError, WorkerDied, WorkerRaised, WorkerTimeout
from envhub.evaluation.attempt import Attempt
from envhub.records import Episode, EpisodeError

SPACE = spaces.Box(-1.0, 1.0, (2,), np.float32)
EPISODE = Episode(7, "suite", "reach", 3, 13, None)


def begin(success="once", horizon=10, init_state=None, attempt=1):
    episode = Episode(7, "suite", "reach", 3, 13, init_state)
    return Attempt(episode, Task("reach", "reach it", horizon, success=success), attempt)


def play(playing, successes, rewards=None, *, terminated=False, truncated=False, value=0.5):
    """Take in steps, with these successes."""
    count = len(successes)
    actions = np.full((count, 2), value, np.float32)
    steps = rewards or [1.0] * count
    playing.add(actions, steps, successes, terminated=terminated, truncated=truncated)
    return playing


def outcome(playing):
    record = playing.record(SPACE)
    return record.success, record.success_step, record.end, record.steps


N, F, T = None, False, True


@pytest.mark.parametrize(
    ("success", "told", "terminated", "truncated", "expected"),
    [
        ("once", [F, F, T], F, F, (T, 3, "success", 3)),
        ("once", [F, F, T], T, F, (T, 3, "success", 3)),
        ("once", [F, F, F], T, F, (F, N, "terminated", 3)),
        ("once", [F, F, F], F, T, (F, N, "truncated", 3)),
        ("once", [F] * 10, F, F, (F, N, "truncated", 10)),
        ("once", [N, N, T], F, F, (T, 3, "success", 3)),
        ("once", [N] * 10, F, F, (N, N, "truncated", 10)),
        ("at_end", [F, T, F, T], T, F, (T, 2, "terminated", 4)),
        ("at_end", [F, T, T, F], T, F, (F, 2, "terminated", 4)),
        ("at_end", [T] * 10, F, F, (T, 1, "truncated", 10)),
        ("at_end", [T, T, N], F, T, (F, 1, "truncated", 3)),
        ("at_end", [N, N], T, F, (N, N, "terminated", 2)),
        ("ever", [F, T, F], T, F, (T, 2, "terminated", 3)),
        ("ever", [F, F, F], F, T, (F, N, "truncated", 3)),
        ("ever", [T] + [F] * 9, F, F, (T, 1, "truncated", 10)),
        ("ever", [N, N], T, T, (N, N, "terminated", 2)),
    ],
)
def test_ends_by_the_tasks_rule(success, told, terminated, truncated, expected):
    playing = play(begin(success), told, terminated=terminated, truncated=truncated)
    assert playing.outcome.ended
    assert outcome(playing) == expected


@pytest.mark.parametrize(
    ("success", "told"), [("once", [F, F]), ("at_end", [T]), ("ever", [T, F]), ("once", [N] * 9)]
)
def test_goes_on(success, told):
    playing = play(begin(success), told)
    assert not playing.outcome.ended
    assert playing.outcome.left == 10 - len(told)
    assert playing.outcome.until_success == (success == "once")


def test_steps_may_come_in_parts():
    whole = play(begin(), [F] * 6, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    parts = begin()
    for part in ([0.1], [0.2, 0.3, 0.4], [0.5, 0.6]):
        play(parts, [F] * len(part), part)
    assert parts.outcome.steps == 6
    records = [playing.record(SPACE) for playing in (whole, parts)]
    assert records[0].trace == records[1].trace
    assert records[0].return_ == records[1].return_
    assert np.array_equal(whole.actions(), parts.actions())


@given(
    rewards=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50),
    cuts=st.lists(st.integers(1, 49), max_size=5),
)
def test_returns_do_not_depend_on_the_parts(rewards, cuts):
    playing = begin(horizon=100)
    places = sorted({0, *(cut for cut in cuts if cut < len(rewards)), len(rewards)})
    for start, stop in itertools.pairwise(places):
        play(playing, [F] * (stop - start), rewards[start:stop])
    total = 0.0
    for reward in rewards:
        total += reward
    assert playing.record(SPACE).return_ == total


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_rewards_are_finite(reward):
    playing = play(begin(), [F, F])
    with pytest.raises(ContractError, match=rf"^The env gave the reward {reward} at step 3\.$"):
        play(playing, [F, F, F], [1.0, reward, 1.0])
    assert (playing.outcome.steps, playing.failed(ContractError("x"), SPACE).return_) == (2, 2.0)


def test_rewards_add_up_to_a_number_that_can_be_averaged():
    with pytest.raises(ContractError, match=r"^The env gave the reward 6e\+99 at step 1\.$"):
        play(begin(), [F, F], [6e99, 6e99])
    assert play(begin(), [F, F, T], [9e99, -9e99, 9e99]).record(SPACE).return_ == 9e99


def test_the_trace_holds_actions_rewards_and_flags():
    def trace(*, value=0.5, reward=1.0, told=F, terminated=F, truncated=F, dtype=np.float32):
        playing = begin(success="at_end")
        actions = np.full((2, 2), value, dtype)
        flags = {"terminated": terminated, "truncated": truncated}
        playing.add(actions, [1.0, reward], [F, told], **flags)
        return playing.record(SPACE).trace

    traces = [
        trace(),
        trace(value=np.nextafter(np.float32(0.5), np.float32(1))),
        trace(reward=np.nextafter(1.0, 2.0)),
        trace(told=T),
        trace(told=N),
        trace(terminated=T),
        trace(truncated=T),
        trace(dtype=np.float64),
        begin().failed(ContractError("x"), None).trace,
    ]
    assert len(set(traces)) == len(traces)
    assert trace() == trace()
    assert all(one.startswith("sha256:") and len(one) == 71 for one in traces)


def test_what_a_record_says_of_its_episode():
    record = play(begin(init_state=2, attempt=3), [T]).record(SPACE)
    assert (record.suite, record.task, record.episode, record.seed) == ("suite", "reach", 3, 13)
    assert (record.init_state, record.attempts, record.number) == (2, 3, 7)
    assert (record.status, record.error) == ("ok", None)
    assert record.seconds >= 0.0


def test_what_reset_and_policy_are_told():
    assert begin().options is None
    assert begin(init_state=0).options == {"init_state": 0}
    told = begin().info
    assert (told.number, told.suite, told.task, told.index, told.seed) == (
        7,
        "suite",
        "reach",
        3,
        13,
    )
    assert told.description == "reach it"


def raised(where):
    return WorkerRaised("step of task 'reach'", "KeyError", "no arm", where=where)


def at(where, error):
    error.where = where
    return error


DOING = "step of task 'reach'"


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (raised("env"), "env_error", ("env", "KeyError", f"{DOING}: KeyError: no arm")),
        (raised("policy"), "policy_error", ("policy", "KeyError", f"{DOING}: KeyError: no arm")),
        (WorkerTimeout(DOING, "late"), "timeout", ("env", "WorkerTimeout", f"{DOING}: late")),
        (
            at("policy", WorkerTimeout(DOING, "late")),
            "timeout",
            ("policy", "WorkerTimeout", f"{DOING}: late"),
        ),
        (WorkerDied(DOING, "gone"), "worker_died", ("worker", "WorkerDied", f"{DOING}: gone")),
        (
            at("policy", WorkerDied(DOING, "gone")),
            "worker_died",
            ("policy", "WorkerDied", f"{DOING}: gone"),
        ),
        (ContractError("odd"), "env_error", ("env", "ContractError", "odd")),
    ],
)
def test_what_a_failed_episode_says(error, status, expected):
    record = play(begin(), [F, F], [1.0, 2.0]).failed(error, SPACE)
    assert (record.status, record.end, record.success) == (status, "error", None)
    assert record.error == EpisodeError(*expected, step=2)
    assert (record.steps, record.return_) == (2, 3.0)
    assert record.failed_by_policy == (expected[0] == "policy")
    assert record.counts == record.failed_by_policy


def test_an_episode_that_failed_before_its_first_step():
    playing = begin()
    assert playing.actions() is None
    record = playing.failed(WorkerDied(DOING, "gone"), None)
    assert (record.steps, record.return_, record.out_of_bounds) == (0, 0.0, 0)


@pytest.mark.parametrize(
    ("space", "actions", "expected"),
    [
        (SPACE, np.array([[1.0, -1.0], [1.1, 0.0], [0.0, -9.0], [2.0, 2.0]], np.float32), 3),
        (spaces.Discrete(3), np.array([0, 2, 3, -1]), 2),
        (spaces.Discrete(3, start=5), np.array([4, 5, 7, 8]), 2),
        (spaces.MultiDiscrete([2, 3]), np.array([[1, 2], [2, 0], [0, 3], [-1, 0]]), 3),
        (spaces.MultiBinary(2), np.array([[0, 1], [1, 1]], np.int8), 0),
        (spaces.Box(0, 255, (1, 2), np.uint8), np.array([[[0, 255]], [[3, 4]]], np.uint8), 0),
    ],
)
def test_actions_outside_the_space_are_counted(space, actions, expected):
    playing = begin()
    count = len(actions)
    playing.add(actions, [0.0] * count, [F] * count, terminated=True, truncated=False)
    assert playing.record(space).out_of_bounds == expected


def test_what_is_kept_of_each_step():
    """All that a trace hashes beside the actions."""
    playing = begin("ever")
    assert playing.steps() is None
    play(playing, [N, F], [0.5, -1.0])
    play(playing, [T], [2.0], terminated=True)
    steps = playing.steps()
    assert steps.tolist() == [(0.5, -1, F, F), (-1.0, 0, F, F), (2.0, 1, T, F)]
    assert (steps.dtype.itemsize, steps.dtype["reward"].str) == (11, "<f8")
