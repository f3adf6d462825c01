"""What a policy may declare and answer; the built-in ones; the examples of the documentation."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from support.needs import needs_torch
from support.paths import DOCS

import envhub
from envhub.errors import ContractError
from envhub.policies.builtin import make_random, make_zero
from envhub.policies.caller import PolicyCaller
from envhub.policies.contract import Context, Policy, facts_of, make_rng

LEAVES = ("pixels/front", "pixels/wrist", "agent_pos")
SPACE = spaces.Box(-1.0, 1.0, (2,), np.float32)


def context(seed=0, task="reach", **more):
    rng = make_rng(seed, task)
    return Context("suite", task, f"do {task}", seed, seed, rng=rng, **more)


def policy(act=lambda obs, episodes: np.zeros((len(episodes), 2)), **declared):
    return SimpleNamespace(act=act, **declared)


# What it declares


def test_what_is_not_declared_has_its_default():
    facts = facts_of(policy(), LEAVES)
    assert (facts.placement, facts.needs, facts.format, facts.batch) == (
        Policy.placement,
        Policy.needs,
        Policy.format,
        Policy.batch,
    )


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (None, None),
        (frozenset(), ()),
        ({"agent_pos"}, ("agent_pos",)),
        (["agent_pos", "pixels/front"], ("pixels/front", "agent_pos")),
        ({"pixels"}, ("pixels/front", "pixels/wrist")),
        ({"pixels", "pixels/wrist"}, ("pixels/front", "pixels/wrist")),
    ],
)
def test_needs_are_leaves_in_the_order_of_the_space(needs, expected):
    assert facts_of(policy(needs=needs), LEAVES).needs == expected


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"needs": {"pixels/top"}}, "needs has 'pixels/top', but the observation has: pixels/fr"),
        ({"needs": {"pix"}}, "needs has 'pix', but the observation has: pixels/front, pixels/"),
        ({"needs": "agent_pos"}, "needs must be a set of leaf paths, found 'agent_pos'."),
        ({"needs": {1}}, r"needs must be a set of leaf paths, found \{1\}."),
        ({"needs": 3}, "needs must be a set of leaf paths, found 3."),
        ({"needs": iter(["pixels/top"])}, "needs has 'pixels/top', but the observation has"),
        ({"batch": 0}, "batch must be a positive whole number or None: 0."),
        ({"batch": -2}, "batch must be a positive whole number or None: -2."),
        ({"batch": True}, "batch must be a positive whole number or None: True."),
        ({"batch": 2.0}, "batch must be a positive whole number or None: 2.0."),
        ({"batch": 10**6}, "batch must be a positive whole number or None: 1000000."),
        ({"placement": "x"}, "placement must be 'process' or 'worker', found 'x'."),
        ({"placement": None}, "placement must be 'process' or 'worker', found None."),
        ({"placement": []}, r"placement must be 'process' or 'worker', found \[\]."),
        ({"format": "torch"}, "format must be 'raw' or 'lerobot', found 'torch'."),
        ({"act": 7}, r"SimpleNamespace is not a policy: it has no method act\(obs, episodes\)."),
    ],
)
def test_declarations_that_make_no_sense(declared, problem):
    with pytest.raises(ContractError, match=problem):
        facts_of(policy(**declared), LEAVES)


def test_the_leaf_of_a_bare_array_has_no_path():
    assert facts_of(policy(needs={""}), [""]).needs == ("",)
    with pytest.raises(ContractError, match=r"the observation has: \(the observation itself\)"):
        facts_of(policy(needs={"state"}), [""])


# Chance


def test_chance_follows_from_seed_and_task_alone():
    def draws(seed, task):
        return make_rng(seed, task).integers(2**60, size=4).tolist()

    assert draws(3, "reach") == draws(3, "reach")
    assert len({tuple(draws(seed, task)) for seed in range(9) for task in ("a", "b", "aa")}) == 27
    # Written down, so that records of different versions can be compared.
    assert draws(0, "reach")[:2] == [923304604972169246, 1139984669914491136]


# What it answers


def act(answer, space=SPACE, rows=3, **declared):
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


def test_without_a_batch_size_a_call_has_all_rows():
    made = Rows()
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


# The built-in ones

SPACES = [
    SPACE,
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Discrete(5),
    spaces.Discrete(3, start=7),
    spaces.MultiDiscrete([2, 5]),
    spaces.MultiBinary(3),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("make", [make_random, make_zero])
def test_builtin_policies_act_in_every_space(space, make):
    runner = PolicyCaller(make(None, None, space), LEAVES, space)
    assert runner.facts == facts_of(policy(placement="worker", needs=()), LEAVES)
    episodes = [context(seed) for seed in range(4)]
    for episode in episodes:
        runner.start(episode)
    actions = runner.act({}, episodes)
    assert (actions.shape, actions.dtype) == ((4, 1, *space.shape), space.dtype)
    if make is make_zero:
        assert not actions.any()
    else:
        assert all(space.contains(action[0]) for action in actions)


def test_random_actions_follow_from_the_episode_alone():
    def three(seeds):
        made = make_random(None, None, SPACE)
        episodes = [context(seed) for seed in seeds]
        for episode in episodes:
            made.start(episode)
        return np.stack([made.act({}, episodes) for _ in range(3)], axis=1)

    together = three([4, 5, 6])
    assert np.array_equal(together[1], three([5])[0])
    assert len({actions.tobytes() for actions in together.reshape(9, 2)}) == 9


# The examples, and what the documentation says


@pytest.mark.parametrize(
    ("name", "batch"), [("steer", None), pytest.param("network", 8, marks=needs_torch)]
)
def test_examples_solve_the_example(name, batch, tmp_path):
    file = f"{DOCS}/examples/policies/{name}.py"
    options = {"suites": "all", "episodes": 2}
    traces = []
    for workers in (0, 2):
        out = tmp_path / str(workers)
        run = envhub.evaluate(f"{DOCS}/examples/reach", file, workers=workers, out=out, **options)
        records = run.records()
        assert len(records) == 10
        assert all(record.success for record in records)
        assert max(record.steps for record in records) <= 20
        assert run.info["policy"]["batch"] == batch
        traces.append([record.trace for record in records])
    assert traces[0] == traces[1]


def test_the_documentation_names_all_that_a_policy_may_have():
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    for name in (*Policy.__annotations__, "act", "start", "finish", "close"):
        assert f"\n`{name}" in page or f", `{name}(" in page
    for field in dataclasses.fields(Context):
        assert f"\n    {field.name}: " in page
