import json
from contextlib import ExitStack
from copy import deepcopy

import numpy as np
import pytest
from assets.vector_spaces.env import make
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import ASSETS
from support.space_trees import trees

from envhub.errors import WorkerRaised
from envhub.options import Limits
from envhub.sources.find import find_source
from envhub.types import WorkerSpec
from envhub.vector.env import LazyVectorEnv

SPACES = ["action_space", "observation_space", "single_action_space", "single_observation_space"]
MODES = list(AutoresetMode)
EVERY_KIND = [
    "pairs",
    [
        ["text", ["text", 0, 9, "zyx ä漢"]],
        ["image", ["box", "|u1", [4, 5, 3], 0, 255]],
        ["point", ["box", "<f4", [], -1, 1]],
        ["flags", ["box", "|b1", [2], 0, 1]],
        ["nested", ["dict", [["b", ["multi_discrete", "<i4", [3, 2], [0, 1]]], ["a", ["tuple", [
            ["discrete", "<i8", 5, -2], ["multi_binary", [2, 2]], ["text", 1, 3, "01"],
        ]]]]]],
        ["half", ["box", "<f2", [3], [-1, -2, 0], [1, 2, 4]]],
    ],
]  # fmt: skip
JOINTS = ["box", "<f4", [3], -1, 1]


def open_both(observation, action=JOINTS, n_envs=2, mode=MODES[0], *, copy=True):
    """A vector environment of ours, and Gymnasium's of the same envs."""
    spec = json.dumps({"observation": observation, "action": action})
    source = find_source(str(ASSETS / "vector_spaces"))
    workers = WorkerSpec(source, {"spec": spec}, Limits(), 1000)
    ours = LazyVectorEnv(workers, "any", "sample", n_envs, autoreset_mode=mode, copy=copy)
    return ours, SyncVectorEnv([lambda: make(None, spec)] * n_envs, copy, autoreset_mode=mode)


@pytest.fixture
def pair():
    with ExitStack() as stack:

        def opened(*args, **kwargs):
            ours, theirs = open_both(*args, **kwargs)
            return stack.enter_context(ours), theirs

        yield opened


@pytest.fixture(scope="module")
def joints():
    """A pair for many tests, which leave it open."""
    ours, theirs = open_both(JOINTS)
    with ours:
        ours.reset()
        yield ours, theirs


def alike(ours, theirs):
    """Equal in value, type, dtype and structure."""
    if isinstance(theirs, str):  # numpy's text crosses as plain text
        assert ours == theirs
        return
    assert type(ours) is type(theirs)
    match theirs:
        case dict():
            assert ours.keys() == theirs.keys()
            for key in theirs:
                alike(ours[key], theirs[key])
        case list() | tuple():
            assert len(ours) == len(theirs)
            for mine, its in zip(ours, theirs, strict=True):
                alike(mine, its)
        case np.ndarray():
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if theirs.dtype == object:
                alike(ours.tolist(), theirs.tolist())
            else:
                np.testing.assert_array_equal(ours, theirs)
        case _:
            np.testing.assert_equal(ours, theirs)


def orders(value):
    """The keys of an observation, in their order."""
    match value:
        case dict():
            return [(key, orders(part)) for key, part in value.items()]
        case tuple():
            return [orders(part) for part in value]
    return None


def drive(ours, theirs, steps, seed):
    """Take the same steps and resets with both, and compare what comes back."""
    rng = np.random.default_rng(seed)
    theirs.action_space.seed(seed)
    first = ours.reset(seed=seed), theirs.reset(seed=seed)
    alike(*first)
    assert orders(first[0][0]) == orders(first[1][0])
    ended = np.zeros(ours.num_envs, bool)
    finals = []
    for _ in range(steps):
        actions = theirs.action_space.sample()
        got, expected = ours.step(actions), theirs.step(actions)
        alike(got, expected)
        finals += [final for final in got[4].get("final_obs", ()) if final is not None]
        ended = expected[2] | expected[3]
        disabled = theirs.autoreset_mode is AutoresetMode.DISABLED
        if (disabled and ended.any()) or rng.random() < 0.1:
            mask = (rng.random(ours.num_envs) < 0.4) | ended
            options = {"level": [1, "a"], "target": rng.random(2), "reset_mask": mask}
            seeds = [int(rng.integers(99)) if rng.random() < 0.5 else None for _ in mask]
            if not mask.any():
                del options["reset_mask"]
            alike(
                ours.reset(seed=seeds, options=deepcopy(options)),
                theirs.reset(seed=seeds, options=deepcopy(options)),
            )
    assert all(final in ours.single_observation_space for final in finals)
    return finals


# The same as Gymnasium's


@pytest.mark.parametrize(
    ("mode", "n_envs"), [(MODES[0], 1), *((mode, 3) for mode in MODES)], ids=str
)
def test_every_step_is_as_gymnasiums(mode, n_envs, pair):
    ours, theirs = pair(EVERY_KIND, EVERY_KIND, n_envs, mode)
    finals = drive(ours, theirs, 60, seed=3)
    assert bool(finals) == (mode is AutoresetMode.SAME_STEP)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    observation=trees(),
    action=trees(),
    mode=st.sampled_from(MODES),
    n_envs=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)
def test_every_step_is_as_gymnasiums_for_any_spaces(observation, action, mode, n_envs, seed, pair):
    ours, theirs = pair(observation, action, n_envs, mode)
    with ours:
        drive(ours, theirs, 30, seed)


def test_the_spaces_are_gymnasiums(pair):
    ours, theirs = pair(EVERY_KIND, ["unsorted", [["b", JOINTS], ["a", ["discrete", "<i8", 3, 0]]]])
    for name in SPACES:
        assert getattr(ours, name) == getattr(theirs, name)
        assert repr(getattr(ours, name)) == repr(getattr(theirs, name))


def test_spaces_that_were_seeded_stay(pair):
    ours, theirs = pair(JOINTS)
    for name in SPACES:
        getattr(ours, name).seed(5)
        getattr(theirs, name).seed(5)
    ours.reset(seed=0)
    for _ in range(2):  # closed and opened again the second time
        for name in SPACES:
            alike(getattr(ours, name).sample(), getattr(theirs, name).sample())
        ours.close()
        ours.reset(seed=0)


def test_what_is_known_before_the_first_reset(pair):
    ours, theirs = pair(JOINTS, mode=AutoresetMode.SAME_STEP)
    assert ours.num_envs == theirs.num_envs == 2
    assert ours.metadata == theirs.metadata
    assert ours.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert ours.render_mode == theirs.render_mode == "rgb_array"
    assert ours.spec is None
    assert ours.unwrapped is ours
    assert not ours.closed
    assert ours.call("task_description") == ("sample the space",) * 2
    assert ours.single_observation_space.shape == (3,)


def test_the_autoreset_mode_may_be_a_text(pair):
    ours, _ = pair(JOINTS, mode="SameStep")
    assert ours.autoreset_mode is AutoresetMode.SAME_STEP


def test_questions_are_answered_as_gymnasiums(joints):
    ours, theirs = joints
    ours.reset(seed=[4, 9])
    theirs.reset(seed=[4, 9])
    for question in (
        lambda env: env.call("add", 1, right=2.5),
        lambda env: env.call("add", np.arange(3), right=np.float32(1)),
        lambda env: env.call("render"),
        lambda env: env.render(),
        lambda env: env.get_attr("_max_episode_steps"),
        lambda env: env.get_attr("metadata"),
        lambda env: env.np_random_seed,
    ):
        alike(question(ours), question(theirs))


@pytest.mark.parametrize(
    "values", [7, [1, 2], (1, 2), "text", None, {"a": (1, 2)}, np.arange(2), [[1], [2]]], ids=repr
)
def test_attributes_are_set_as_gymnasiums(values, joints):
    ours, theirs = joints
    for env in (ours, theirs):
        env.set_attr("mood", values)
    alike(ours.get_attr("mood"), theirs.get_attr("mood"))


def test_seeds_that_numpy_draws_are_told(pair):
    ours, _ = pair(JOINTS, n_envs=1)
    ours.reset()
    [seed] = ours.np_random_seed
    assert seed > 2**64


# Actions


POINT, KEYS = ["box", "<f8", [], -1, 1], ["discrete", "<i8", 5, 0]
ACTIONS = [
    (
        JOINTS,
        [
            np.ones((2, 3), np.float32),
            np.ones((2, 3), np.float64) / 3,
            np.ones((2, 3), np.float16),
            np.ones((2, 3), np.int64),
            np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
            np.full((2, 3), np.nan, np.float32),
            np.ones((2, 5), np.float32),
            np.ones(2, np.float32),
            [[1.0, 2.0, 3.0], [4, 5, 6]],
            ((0.5, 1, 2), np.zeros(3)),
            [np.zeros(3, np.float32), np.ones(3, np.float64)],
        ],
    ),
    (POINT, [np.ones(2), np.ones(2, np.float32), [1.5, np.float64(2)]]),
    (
        KEYS,
        [
            np.array([1, 2]),
            np.array([1, 2], np.int32),
            np.array([1.0, 2.0]),
            [1, 2],
            (np.int64(1), True),
        ],
    ),
    (["multi_binary", 2], [np.eye(2, dtype=np.int8), np.eye(2, dtype=bool)]),
    (["text", 0, 5, "abc"], [("abc", ""), ["a", "b"]]),
    (["dict", [["a", JOINTS]]], [{"a": np.ones((2, 3))}, {"a": [[1, 2], [3, 4]], "more": 1}]),
    (["tuple", [JOINTS, KEYS]], [(np.ones((2, 3)), [1, 2])]),
]


@pytest.mark.parametrize(("space", "table"), ACTIONS, ids=lambda part: str(part[0])[:20])
def test_actions_reach_the_env_as_they_are(space, table, pair):
    ours, theirs = pair(JOINTS, space, mode=AutoresetMode.SAME_STEP)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    for actions in table:
        got, expected = (env.step(deepcopy(actions))[4] for env in (ours, theirs))
        alike(got, expected)
        told = [got.get("action"), got.get("final_info", {}).get("action")]
        assert sum(text is not None for texts in told if texts is not None for text in texts) == 2


def test_actions_may_be_changed_afterwards(joints):
    ours, _ = joints
    ours.reset(seed=1)
    actions = np.ones((2, 3), np.float32)
    _, _, _, _, info = ours.step(actions)
    actions[:] = 2
    assert "[1.0, 1.0, 1.0]" in info["action"][0]


# Memory


def test_with_copy_nothing_changes_afterwards(pair):
    ours, _ = pair(EVERY_KIND)
    observation, _ = ours.reset(seed=1)
    kept = deepcopy(observation)
    ours.step(ours.action_space.sample())
    ours.close()
    alike(observation, kept)
    observation["image"][:] = 0


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_without_copy_observations_change_with_the_next_step(mode, pair):
    ours, theirs = pair(EVERY_KIND, n_envs=2, mode=mode, copy=False)
    before, _ = ours.reset(seed=1)
    kept = deepcopy(before)
    alike(before, theirs.reset(seed=1)[0])
    actions = np.zeros((2, 3), np.float32)
    after, *_ = ours.step(actions)
    assert np.shares_memory(before["image"], after["image"])
    assert np.array_equal(before["image"], after["image"])
    assert not np.array_equal(before["image"], kept["image"])
    alike(after, theirs.step(actions)[0])
    ours.close()
    alike(before["half"], after["half"])  # the memory outlives the processes


def test_final_observations_are_copies_also_without_copy(pair):
    ours, theirs = pair(JOINTS, n_envs=2, mode=AutoresetMode.SAME_STEP, copy=False)
    drive(ours, theirs, 0, seed=3)
    actions = np.zeros((2, 3), np.float32)
    finals = []
    for _ in range(40):
        info = ours.step(actions)[4]
        finals.append((info.get("final_obs"), theirs.step(actions)[4].get("final_obs")))
    assert any(final is not None for final, _ in finals)
    for mine, its in finals:
        alike(mine, its)


# What callers get wrong

FEW = np.zeros((1, 3), np.float32)
MANY = np.zeros((3, 3), np.float32)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda env: env.reset(seed=[1]), ValueError),
        (lambda env: env.reset(seed=[1, 2, 3]), ValueError),
        (lambda env: env.reset(seed=()), ValueError),
        (lambda env: env.reset(options={"reset_mask": [True, False]}), TypeError),
        (lambda env: env.reset(options={"reset_mask": np.array([1, 0])}), TypeError),
        (lambda env: env.reset(options={"reset_mask": np.array([True])}), ValueError),
        (lambda env: env.reset(options={"reset_mask": np.ones((2, 1), bool)}), ValueError),
        (lambda env: env.reset(options={"reset_mask": np.zeros(2, bool)}), ValueError),
        (lambda env: env.step(FEW), ValueError),
        (lambda env: env.step(MANY), ValueError),
        (lambda env: env.step([]), ValueError),
        (lambda env: env.step(3), TypeError),
        (lambda env: env.step(None), TypeError),
        (lambda env: env.set_attr("mood", [1]), ValueError),
        (lambda env: env.set_attr("mood", (1, 2, 3)), ValueError),
        (lambda env: env.call("nothing"), AttributeError),
        (lambda env: env.get_attr("nothing"), AttributeError),
    ],
)
def test_wrong_arguments_are_refused_as_by_gymnasium_and_do_no_harm(wrong, kind, joints):
    ours, theirs = joints
    drive(ours, theirs, 0, seed=1)
    with pytest.raises(kind):
        wrong(theirs)
    with pytest.raises(kind) as caught:
        wrong(ours)
    assert str(caught.value)
    drive(ours, theirs, 3, seed=2)


def test_actions_for_a_dict_without_a_key(pair):
    for env in pair(JOINTS, ["dict", [["a", JOINTS]]]):
        env.reset(seed=1)
        with pytest.raises(KeyError, match="a"):
            env.step({"b": FEW})


@pytest.mark.parametrize(
    "refused",
    [
        lambda env: env.reset(options={"x": object()}),
        lambda env: env.call("add", 1, x=object()),
        lambda env: env.set_attr("mood", [1, {"x": object()}]),
        lambda env: env.step([np.zeros(3), {"x": object()}]),
    ],
)
def test_values_that_cannot_cross_are_refused_and_do_no_harm(refused, joints):
    ours, theirs = joints
    ours.reset(seed=1)
    with pytest.raises(TypeError, match="x is a object"):
        refused(ours)
    drive(ours, theirs, 3, seed=2)


def test_a_disabled_env_that_ended_must_be_reset(pair):
    ours, theirs = pair(JOINTS, mode=AutoresetMode.DISABLED)
    for env in (ours, theirs):
        env.reset(seed=3)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = env.step(np.zeros((2, 3), np.float32))
            ended = (terminated | truncated).any()
        with pytest.raises(AssertionError):
            env.step(np.zeros((2, 3), np.float32))
    assert ours.reset(seed=3)[0].shape == (2, 3)


def test_an_env_that_opens_again_owes_no_reset(pair):
    ours, _ = pair(JOINTS, n_envs=1)
    ours.reset(seed=3)
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = ours.step(np.zeros((1, 3), np.float32))
        ended = (terminated | truncated).any()
    ours.close()
    assert "action" in ours.step(np.zeros((1, 3), np.float32))[4]


def test_the_callers_options_and_mask_are_left_as_they_were(joints):
    ours, _ = joints
    ours.reset(seed=1)
    mask = np.array([True, False])
    options = {"reset_mask": mask, "level": 1}
    _, info = ours.reset(options=options)
    assert options.keys() == {"reset_mask", "level"}
    assert info["options"].tolist() == ["dict(level=int(1))", None]


# Gymnasium's wrappers


@pytest.mark.parametrize(
    "wrap",
    [
        vector.RecordEpisodeStatistics,
        vector.FlattenObservation,
        vector.DictInfoToList,
        lambda env: vector.RescaleAction(env, np.float32(0), np.float32(9)),
        lambda env: vector.NormalizeReward(
            vector.RecordEpisodeStatistics(vector.NormalizeObservation(vector.ClipAction(env)))
        ),
    ],
)
def test_gymnasiums_wrappers_work_as_around_gymnasiums_envs(wrap, pair):
    """Of each kind one, and one around another: a wrapper closes its env when it is dropped."""
    ours, theirs = (wrap(env) for env in pair(JOINTS))
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    theirs.action_space.seed(1)
    alike(ours.reset(seed=7), theirs.reset(seed=7))
    for _ in range(40):
        actions = theirs.action_space.sample()
        alike(timeless(ours.step(actions)), timeless(theirs.step(actions)))
    if isinstance(ours, vector.RecordEpisodeStatistics):
        assert list(ours.return_queue) == list(theirs.return_queue) != []


def timeless(step):
    """Without the seconds that RecordEpisodeStatistics measures."""
    if isinstance(step[4], dict) and "episode" in step[4]:
        del step[4]["episode"]["t"]
    return step


def test_wrappers_see_masked_resets(pair):
    env = vector.RecordEpisodeStatistics(pair(JOINTS)[0])
    env.reset(seed=1)
    env.step(np.zeros((2, 3), np.float32))
    env.reset(options={"reset_mask": np.array([True, False])})
    assert env.episode_lengths.tolist() == [0, 1]


# Envs that break their contract

FLAGS = "step() must return a number as reward and two flags, found "
SHAPE = "Observation 'state' has shape (4,); its space says (3,)."
BREAKS = [
    ("wrong shape", SHAPE),
    ("too few dimensions", "Observation 'image' has shape (); its space says (2, 2)."),
    ("wrong dtype", "Observation 'image' has dtype float64; its space says uint8."),
    ("signed", "Observation 'image' has dtype int64; its space says uint8."),
    ("objects", "Observation 'state' has dtype object; its space says float32."),
    ("missing key", "Observation 'state' is missing: KeyError: 'state'."),
    ("no observation", "is missing: TypeError: 'NoneType' object is not subscriptable."),
    ("short tuple", "Observation 'pair/1' is missing: IndexError: tuple index out of range."),
    ("no text", "Observation 'word' is of type int; its space says text."),
    ("no mapping", "info must be a mapping, found list."),
    ("no info", "info must be a mapping, found NoneType."),
]
STEP = "step() must return (observation, reward, terminated, truncated, info)."


@pytest.fixture
def fragile():
    source = find_source(str(ASSETS / "vector_breaks"))
    with LazyVectorEnv(WorkerSpec(source, {}, Limits(), 1000), "any", "fragile", 1) as env:
        yield env


WRONG_STEPS = [
    *BREAKS,
    ("four values", STEP),
    ("a list", STEP),
    ("no reward", FLAGS + "None, False, False."),
    ("reward in words", FLAGS + "'much', False, False."),
    ("two rewards", FLAGS + "array([1., 1.]), False, False."),
    ("raises", "RuntimeError: the arm broke"),
    ("exits", "SystemExit: 3"),
]
WRONG_RESETS = [
    ("wrong shape", SHAPE),
    ("no info", "info must be a mapping, found NoneType."),
    ("nothing", "reset() must return (observation, info)."),
    ("one value", "reset() must return (observation, info)."),
]


def test_a_step_that_breaks_the_contract(fragile):
    """Each ends the env's process, so the next one begins with a new one."""
    for told, problem in WRONG_STEPS:
        assert fragile.reset(seed=1)[1]["told"] == [""]
        assert fragile.step(("fine",))[4]["told"] == ["fine"]
        with pytest.raises(WorkerRaised) as caught:
            fragile.step((told,))
        assert str(caught.value).startswith("step of task 'fragile' in env 0: ")
        assert problem in str(caught.value)
        assert caught.value.contract == (told not in {"raises", "exits"})


def test_a_reset_that_breaks_the_contract(fragile):
    for told, problem in WRONG_RESETS:
        with pytest.raises(WorkerRaised) as caught:
            fragile.reset(options={"told": told})
        assert str(caught.value) == f"reset of task 'fragile' in env 0: {problem}"
    assert fragile.reset(seed=1)[1]["told"] == [""]


def test_the_env_that_broke_its_contract_is_named_and_all_start_anew():
    source = find_source(str(ASSETS / "vector_breaks"))
    with LazyVectorEnv(WorkerSpec(source, {}, Limits(), 1000), "any", "fragile", 3) as env:
        env.reset()
        with pytest.raises(WorkerRaised) as caught:
            env.step(("fine", "fine", "wrong shape"))
        assert str(caught.value) == f"step of task 'fragile' in env 2: {SHAPE}"
        observation, info = env.reset()
        assert observation["word"] == ("fine",) * 3
        assert info["told"].tolist() == [""] * 3
        with pytest.raises(WorkerRaised, match="in env 1") as caught:
            env.reset(options={"told": "nothing", "reset_mask": np.array([False, True, True])})
        assert "in env 2" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("where", "kind"),
    [("observation", "graph"), ("observation", "sequence"), ("action", "one_of")],
)
def test_an_unsupported_space_is_refused_by_name(kind, where, pair):
    name = {"graph": "Graph", "sequence": "Sequence", "one_of": "OneOf"}[kind]
    spaces = {"observation": JOINTS, "action": JOINTS, where: ["dict", [["x", [kind]]]]}
    ours, _ = pair(spaces["observation"], spaces["action"], n_envs=1)
    with pytest.raises(WorkerRaised) as caught:
        ours.reset()
    assert "making the env of task 'sample' in env 0" in str(caught.value)
    assert f"space {name} at 'x' cannot cross to another process" in str(caught.value)


def test_an_error_is_not_its_own_cause(pair):
    ours, _ = pair(JOINTS, n_envs=1)
    ours.reset(seed=1)
    with pytest.raises(WorkerRaised, match=r"TypeError.*add") as caught:
        ours.call("add")
    assert caught.value.__cause__ is None
    assert caught.value.kind == "TypeError"
