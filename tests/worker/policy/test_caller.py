"""Calling a policy: its answers, batches of a fixed size, episodes."""

import numpy as np
import pytest
from gymnasium import spaces
from support.policies import SPACE, context, policy

from envhub.errors import ContractError
from envhub.worker.policy.caller import PolicyCaller

# What it answers


def act(answer, space=SPACE, rows=3, **declared):
    declared = {"batch": "any"} | declared
    runner = PolicyCaller(policy(lambda obs, episodes: answer, **declared), [""], space)
    return runner.act(np.zeros((rows, 1)), [context(seed) for seed in range(rows)])


@pytest.mark.parametrize(
    ("answer", "space", "shape"),
    [
        (np.zeros((3, 2)), SPACE, (3, 1, 2)),
        (np.zeros((3, 2), np.float16), SPACE, (3, 1, 2)),
        (np.zeros((3, 2), int), SPACE, (3, 1, 2)),
        (np.zeros((3, 2), bool), SPACE, (3, 1, 2)),
        ([[0, 1], [2, 3], [4, 5]], SPACE, (3, 1, 2)),
        (np.zeros((3, 7, 2)), SPACE, (3, 7, 2)),
        (np.full((3, 2), 99.0), SPACE, (3, 1, 2)),
        (np.zeros(3, int), spaces.Discrete(4), (3, 1)),
        (np.zeros((3, 5), int), spaces.Discrete(4), (3, 5)),
        ([1, 2, 3], spaces.Discrete(4), (3, 1)),
        (np.ones((3, 4), int), spaces.MultiBinary(4), (3, 1, 4)),
        (np.ones((3, 2), bool), spaces.MultiDiscrete([3, 3]), (3, 1, 2)),
        (np.zeros((3, 2, 2)), spaces.Box(-1, 1, (2, 2)), (3, 1, 2, 2)),
        (np.zeros((3, 3, 2, 2)), spaces.Box(-1, 1, (2, 2)), (3, 3, 2, 2)),
    ],
)
def test_answers(answer, space, shape):
    actions = act(answer, space)
    assert (actions.shape, actions.dtype) == (shape, space.dtype)
    assert np.array_equal(actions.reshape(np.shape(answer)), np.asarray(answer))


@pytest.mark.parametrize(
    ("answer", "space", "shapes"),
    [
        ([np.zeros((7, 2)), np.zeros((1, 2)), np.zeros((3, 2))], SPACE, [(7, 2), (1, 2), (3, 2)]),
        (([[0, 1]], [[2, 3], [4, 5]], [[6, 7]]), SPACE, [(1, 2), (2, 2), (1, 2)]),
        ([[1, 2], [3], [0]], spaces.Discrete(4), [(2,), (1,), (1,)]),
        ([np.zeros((1, 2, 2)), *[np.zeros((4, 2, 2))] * 2], spaces.Box(-1, 1, (2, 2)), None),
    ],
)
def test_chunks_of_different_lengths(answer, space, shapes):
    chunks = act(answer, space)
    assert isinstance(chunks, list)
    assert [chunk.shape for chunk in chunks] == (shapes or [np.shape(part) for part in answer])
    assert {chunk.dtype for chunk in chunks} == {space.dtype}
    assert all(map(np.array_equal, chunks, answer))


def test_chunks_of_one_length_are_an_array():
    assert act([np.ones((4, 2))] * 3).shape == (3, 4, 2)
    assert act([np.ones(2), np.zeros(2), np.ones(2, int)]).shape == (3, 1, 2)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([np.zeros((2, 2)), np.zeros((1, 2))], "returned 2 chunks for 3 rows."),
        ([np.zeros((n, 2)) for n in (1, 0, 2)], "a chunk without actions for row 1."),
        ([np.zeros((n, 3)) for n in (1, 1, 2)], "returned a list, not an array: "),
        ([np.full((n, 2), np.nan) for n in (1, 1, 2)], "not finite"),
        ([np.zeros((n, 2), complex) for n in (1, 1, 2)], "dtype complex128."),
        ([[[0, 0]], [["x", "y"]], [[0, 0], [1, 1]]], "dtype <U1."),
    ],
)
def test_chunks_that_are_none(answer, problem):
    with pytest.raises(ContractError, match=problem):
        act(answer)


def test_actions_are_the_callers_to_keep():
    answer = np.zeros((3, 2), np.float32)
    actions = act(answer)
    answer[:] = 7
    assert not actions.any()


@pytest.mark.parametrize(
    ("answer", "space", "problem"),
    [
        (np.zeros((3, 3)), SPACE, r"shape \(3, 3\); expected \(3, 2\) or \(3, 'chunk', 2\)."),
        (np.zeros((2, 2)), SPACE, r"shape \(2, 2\); expected \(3, 2\)"),
        (np.zeros((1, 3, 2)), SPACE, r"shape \(1, 3, 2\); expected"),
        (np.zeros((3, 0, 2)), SPACE, r"shape \(3, 0, 2\); expected"),
        (np.zeros((3, 1, 1, 2)), SPACE, r"shape \(3, 1, 1, 2\); expected"),
        (0.0, SPACE, r"shape \(\); expected"),
        (np.zeros((3, 1)), spaces.Discrete(2), "dtype float64; the action space has int64."),
        (np.full((3, 2), np.nan), SPACE, "not finite"),
        (np.full((3, 2), -np.inf), SPACE, "not finite"),
        (np.full((3, 2), 1e39), SPACE, "not finite"),
        (np.full((3, 4), 300), spaces.MultiBinary(4), "too large for int8"),
        # More numbers are checked in another way.
        (np.r_[np.zeros(59), np.nan].reshape(3, 10, 2), SPACE, "not finite for float32"),
        (np.r_[-np.inf, np.zeros(59)].reshape(3, 10, 2), SPACE, "not finite for float32"),
        (np.r_[np.zeros(59), 1e39].reshape(3, 10, 2), SPACE, "not finite for float32"),
        (np.full((3, 10, 4), -300), spaces.MultiBinary(4), "too large for int8"),
        (np.zeros((3, 2), complex), SPACE, "returned a ndarray of dtype complex128."),
        (np.full((3, 2), "1"), SPACE, "returned a ndarray of dtype <U1."),
        (None, SPACE, "returned a NoneType of dtype object."),
        ({"action": [0, 0]}, SPACE, "returned a dict of dtype object."),
        ([[0.0], [0.0, 0.0]], SPACE, "returned a list, not an array: "),
    ],
)
def test_answers_that_are_none(answer, space, problem):
    with pytest.raises(ContractError, match=problem):
        act(answer, space)


# Batches


class Rows:
    """Remembers the rows that it saw, and what it was told."""

    def __init__(self, batch=None, chunk=None):
        self.batch = batch
        self.chunk = chunk
        self.calls = []
        self.told = []

    def start(self, episode):
        self.told.append(("start", episode.index))
        episode.memory["plan"] = iter(range(3))

    def act(self, obs, episodes):
        self.calls.append((obs["x"].tolist(), obs["words"], [one.index for one in episodes]))
        shift = [next(one.memory["plan"]) for one in episodes]
        actions = np.stack([obs["x"], shift], axis=-1) / 100
        return actions if self.chunk is None else np.stack([actions] * self.chunk, axis=1)

    def finish(self, episode):
        self.told.append(("finish", episode.index))


def batched(made, rows, times=1):
    runner = PolicyCaller(made, ["x", "words"], SPACE)
    episodes = [context(seed) for seed in range(rows)]
    for episode in episodes:
        runner.start(episode)
    observation = {"x": np.arange(rows), "words": [f"w{row}" for row in range(rows)]}
    return [runner.act(observation, episodes)[:, 0] for _ in range(times)]


def test_without_a_batch_size_a_call_has_one_row():
    made = Rows()
    (actions,) = batched(made, 3)
    assert made.calls == [([row], [f"w{row}"], [row]) for row in range(3)]
    assert np.allclose(actions[:, 0], np.arange(3) / 100)
    assert [told for told, _ in made.told] == ["start"] * 3


def test_rows_of_one_call_share_no_memory_with_those_of_another():
    seen = []

    def look(obs, episodes):
        seen.append(obs)
        return np.zeros((len(episodes), 2))

    rows = np.arange(12.0).reshape(4, 3)
    runner = PolicyCaller(policy(look, batch=2), [""], SPACE)
    runner.act_by_call(lambda part: np.array(rows[part]), [context(seed) for seed in range(4)])
    assert np.array_equal(np.concatenate(seen), rows)
    assert all(one.base is None for one in seen)


def test_a_call_of_any_size_has_all_rows():
    made = Rows(batch="any")
    (actions,) = batched(made, 5)
    assert made.calls == [([0, 1, 2, 3, 4], ["w0", "w1", "w2", "w3", "w4"], [0, 1, 2, 3, 4])]
    assert np.allclose(actions[:, 0], np.arange(5) / 100)


def test_missing_rows_are_filled():
    made = Rows(batch=4)
    (actions,) = batched(made, 2)
    assert made.calls == [([0, 1, 1, 1], ["w0", "w1", "w1", "w1"], [0, 1, -1, -1])]
    assert actions.shape == (2, 2)


def test_what_is_too_much_for_one_call_is_another():
    made = Rows(batch=2)
    (actions,) = batched(made, 5)
    assert [call[2] for call in made.calls] == [[0, 1], [2, 3], [4, -1]]
    assert np.allclose(actions[:, 0], np.arange(5) / 100)


def test_rows_that_fill_a_batch_disturb_no_memory():
    """Each of them is an episode that has just begun: a plan of three steps never runs out."""
    made = Rows(batch=4)
    answers = batched(made, 2, times=3)
    assert np.allclose([answer[:, 1] for answer in answers], [[0, 0], [0.01] * 2, [0.02] * 2])
    with pytest.raises(StopIteration):
        batched(made, 4, times=4)
    starts = [told for told in made.told if told == ("start", -1)]
    ends = [told for told in made.told if told == ("finish", -1)]
    assert len(starts) == len(ends) == 6


def test_chunks_of_a_batch():
    runner = PolicyCaller(Rows(batch=4, chunk=5), ["x", "words"], SPACE)
    episode = context(1)
    runner.start(episode)
    assert runner.act({"x": np.array([9]), "words": ["w"]}, [episode]).shape == (1, 5, 2)


@pytest.mark.parametrize("lengths", [(2, 2, 5, 5, 1), (1, 2, 3, 4, 5), (3, 3, 3, 3, 1)])
def test_calls_whose_chunks_have_different_lengths(lengths):
    def plan(obs, episodes):
        chunks = [np.full((lengths[e.seed], 2), e.seed) for e in episodes]
        return np.stack(chunks) if len({*map(len, chunks)}) == 1 else chunks

    runner = PolicyCaller(policy(plan, batch=2), [""], SPACE)
    chunks = runner.act(np.zeros((5, 1)), [context(seed) for seed in range(5)])
    assert tuple(map(len, chunks)) == lengths
    assert [chunk[0, 0] for chunk in chunks] == [0, 1, 2, 3, 4]


def test_rows_of_nested_observations():
    seen = []

    def look(obs, episodes):
        seen.append(obs)
        return np.zeros((len(episodes), 2))

    runner = PolicyCaller(policy(look, batch=3), ["a/b", "c"], SPACE)
    runner.act(({"b": np.arange(2)}, ["x", "y"]), [context(0), context(1)])
    assert seen[0][0]["b"].tolist() == [0, 1, 1]
    assert seen[0][1] == ["x", "y", "y"]


def test_observations_in_lerobots_format():
    seen = []

    def look(obs, episodes):
        seen.append(obs)
        return np.zeros((len(episodes), 2))

    runner = PolicyCaller(policy(look, format="lerobot", batch=3), ["agent_pos"], SPACE)
    runner.act({"agent_pos": np.ones((2, 4))}, [context(0, "a"), context(1, "b")])
    assert tuple(seen[0]["observation.state"].shape) == (3, 4)
    assert seen[0]["task"] == ["do a", "do b", "do b"]


def test_a_policy_need_have_no_method_but_act():
    runner = PolicyCaller(policy(), [""], SPACE)
    runner.start(context())
    runner.finish(context())
    runner.close()


def test_ends_that_fail_are_written_down(capsys):
    def fail(*about):
        raise RuntimeError("too late")

    runner = PolicyCaller(policy(finish=fail, close=fail), [""], SPACE)
    runner.finish(context())
    runner.close()
    assert capsys.readouterr().err.count("RuntimeError: too late") == 2
