"""What `make_env` may return, and the vector environments that it becomes."""

import enum
from collections import OrderedDict
from types import MappingProxyType

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv, VectorEnv
from support.reaching import Batched, QuacksLikeEnv, QuacksLikeVectorEnv, Reach

from envhub.errors import ContractError, InvalidEnvs
from envhub.vector.close_envs import close_envs
from envhub.wire.normalize import arrange, normalize, vectorize


class Wide(Reach):
    observation_space = Box(-1, 1, (5,), np.float32)


class Spaceless(gym.Env):
    pass


class CallableEnv(Reach):
    def __call__(self):
        raise AssertionError("an Env is no maker")


class Sizeless(VectorEnv):
    pass


class Suites(enum.StrEnum):
    NEAR = "near"


class StepsOnly:
    def step(self): ...


def vector(n):
    return SyncVectorEnv([Reach] * n)


def makers(n):
    return [Reach for _ in range(n)]


# Accepted shapes: what make_env(n) returns, and the suites and tasks that it means

KINDS = {
    "Env": (lambda n: Reach(), 1),
    "Env that can be called": (lambda n: CallableEnv(), 1),
    "wrapped Env": (lambda n: gym.wrappers.TimeLimit(Reach(), 5), 1),
    "VectorEnv of one": (vector, 1),
    "VectorEnv": (vector, 3),
    "VectorEnv of its own kind": (Batched, 3),
    "wrapped VectorEnv": (lambda n: gym.wrappers.vector.ClipReward(vector(n), -1, 1), 3),
    "class": (lambda n: Reach, 3),
    "callable": (lambda n: lambda: Reach(), 3),
    "callable that makes a VectorEnv": (lambda n: lambda: vector(n), 3),
    "callable that makes a VectorEnv of one": (lambda n: lambda: vector(n), 1),
    "list of callables": (makers, 3),
    "list of one callable": (makers, 1),
    "tuple of callables": (lambda n: tuple(makers(n)), 3),
}

SHAPES = {
    "alone": (lambda value: value(), {"walk": ["walk"]}),
    "by task": (lambda value: {"a": value(), "b": value()}, {"walk": ["a", "b"]}),
    "by number": (lambda value: {0: value(), 10: value()}, {"walk": [0, 10]}),
    "by suite": (
        lambda value: {"near": {"a": value()}, "far": {"a": value(), 7: value()}},
        {"near": ["a"], "far": ["a", 7]},
    ),
    "by numbered suite": (lambda value: {0: {0: value()}}, {0: [0]}),
    "by enum": (lambda value: {Suites.NEAR: {"a": value()}}, {"near": ["a"]}),
    "other mappings": (
        lambda value: MappingProxyType({"near": OrderedDict(a=value())}),
        {"near": ["a"]},
    ),
}


@pytest.mark.parametrize(("shape", "names"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("kind", "n"), KINDS.values(), ids=KINDS)
def test_every_accepted_shape_becomes_vector_envs_by_suite_and_task(kind, n, shape, names):
    envs = normalize(shape(lambda: kind(n)), n, name="walk")
    assert {suite: list(tasks) for suite, tasks in envs.items()} == names
    for tasks in envs.values():
        for env in tasks.values():
            assert isinstance(env, VectorEnv)
            assert env.num_envs == n
            observations, _ = env.reset(seed=1)
            assert observations.shape == (n, 2)
            assert env.step(env.action_space.sample())[1].tolist() == [1.0] * n
    close_envs(envs)


def test_values_of_different_kinds_may_stand_beside_each_other():
    returned = {"a": vector(2), "b": Reach, "c": makers(2), "d": lambda: Batched(2)}
    envs = normalize(returned, 2, name="walk")
    assert [env.num_envs for env in envs["walk"].values()] == [2, 2, 2, 2]
    assert envs["walk"]["a"] is returned["a"]


def test_an_env_is_used_as_it_is():
    env = Reach()
    assert normalize(env, 1, name="walk")["walk"]["walk"].envs[0] is env


def test_every_callable_of_a_list_is_called_once():
    made = []

    def maker(size):
        def make():
            made.append(size)
            return Reach()

        return make

    normalize([maker(size) for size in range(4)], 4, name="walk")
    assert made == [0, 1, 2, 3]


def test_a_callable_that_makes_a_vector_env_is_called_once():
    made = []

    def make():
        made.append(vector(3))
        return made[-1]

    envs = normalize({"a": make}, 3, name="walk")
    assert made == [envs["walk"]["a"]]


def test_arranging_calls_and_makes_nothing():
    def never():
        raise AssertionError("called")

    returned = {"near": {"a": never, 2: [never, never]}}
    arranged = arrange(returned, name="walk")
    assert arranged == {"near": {"a": never, "2": [never, never]}}


def test_what_a_callable_raises_is_not_hidden():
    def make():
        raise FileNotFoundError("scene.xml")

    with pytest.raises(FileNotFoundError, match=r"scene\.xml"):
        normalize({"a": make}, 1, name="walk")


# Refused shapes: what was returned, for how many envs, where the problem stands, what is said

AGAIN = Reach()

REFUSED = {
    "nothing": (lambda: None, 1, (), "found a NoneType."),
    "a number": (lambda: 5, 1, (), "found an int."),
    "text": (lambda: "CartPole-v1", 1, (), "found a str."),
    "bytes": (lambda: b"CartPole-v1", 1, (), "found a bytes."),
    "a set": (lambda: {Reach}, 1, (), "found a set."),
    "a generator": (lambda: (Reach for _ in "ab"), 2, (), "found a generator."),
    "an array": (lambda: np.zeros(2), 1, (), "found a numpy.ndarray."),
    "like an Env": (
        QuacksLikeEnv,
        1,
        (),
        "found a support.reaching.QuacksLikeEnv, which is like an Env but is not a subclass of gym",
    ),
    "like a VectorEnv": (
        QuacksLikeVectorEnv,
        2,
        (),
        "found a support.reaching.QuacksLikeVectorEnv, which is like a VectorEnv but is not a",
    ),
    "steps only": (StepsOnly, 1, (), f"found a {__name__}.StepsOnly."),
    # Mappings
    "empty": (dict, 1, (), "found an empty mapping."),
    "empty suite": (lambda: {"near": {}}, 1, ("near",), "at near: an empty mapping."),
    "rubbish": (lambda: {"a": 5}, 1, ("a",), "at a: an int."),
    "text in a mapping": (lambda: {"a": "CartPole-v1"}, 1, ("a",), "at a: a str."),
    "rubbish in a suite": (
        lambda: {"near": {"a": Reach, "b": None}},
        1,
        ("near", "b"),
        "at near / b: a NoneType.",
    ),
    "quacking in a suite": (
        lambda: {"near": {"a": QuacksLikeVectorEnv()}},
        2,
        ("near", "a"),
        "at near / a: a support.reaching.QuacksLikeVectorEnv, which is like a VectorEnv but is",
    ),
    "too deep": (
        lambda: {"walk": {"near": {"a": Reach}}},
        1,
        ("walk", "near"),
        "at walk / near: a mapping nested deeper than suite and task.",
    ),
    "an Env beside mappings": (
        lambda: {"near": {"a": Reach()}, "b": Reach()},
        1,
        ("b",),
        "key 'b' holds a support.reaching.Reach, while other keys hold mappings.",
    ),
    "a VectorEnv beside mappings": (
        lambda: {"b": vector(1), "near": {"a": Reach()}},
        1,
        ("b",),
        "key 'b' holds a gymnasium.vector.sync_vector_env.SyncVectorEnv, while other keys hold",
    ),
    # Keys
    "a bool": (lambda: {True: Reach}, 1, (True,), "found the key True, which is neither text"),
    "a fraction": (lambda: {1.5: Reach}, 1, (1.5,), "found the key 1.5, which is neither text"),
    "none": (lambda: {None: Reach}, 1, (None,), "found the key None, which is neither text"),
    "a tuple": (
        lambda: {"near": {("a", 1): Reach}},
        1,
        ("near", ("a", 1)),
        "at near: the key ('a', 1), which is neither text nor a whole number.",
    ),
    "a negative number": (
        lambda: {-1: Reach},
        1,
        ("-1",),
        "found the key -1, which cannot be a name",
    ),
    "no name": (lambda: {"": Reach}, 1, ("",), "found the key '', which cannot be a name; names"),
    "a space": (lambda: {"a b": Reach}, 1, ("a b",), "found the key 'a b', which cannot be a name"),
    "a path": (
        lambda: {"near": {"../a": Reach}},
        1,
        ("near", "../a"),
        "at near: the key '../a', which cannot be a name",
    ),
    "a trailing newline": (
        lambda: {"a\n": Reach},
        1,
        ("a\n",),
        "found the key 'a\\n', which cannot",
    ),
    "a look-alike": (lambda: {"\u0430": Reach}, 1, ("\u0430",), "cannot be a name"),
    "a long name": (lambda: {"a" * 201: Reach}, 1, ("a" * 201,), "cannot be a name"),
    "one name twice": (lambda: {1: Reach, "1": Reach}, 1, ("1",), "found two keys that read '1'."),
    "one suite's name twice": (
        lambda: {"1": {"a": Reach}, 1: {"a": Reach}},
        1,
        ("1",),
        "found two keys that read '1'.",
    ),
    # Lists
    "an empty list": (list, 1, (), "found an empty list; it must hold callables that"),
    "a list of envs": (
        lambda: [Reach(), Reach()],
        2,
        (),
        "found a list with a support.reaching.Reach; it must hold callables that each make an Env.",
    ),
    "a list of vector envs": (
        lambda: {"a": [vector(2)]},
        2,
        ("a",),
        "at a: a list with a gymnasium.vector.sync_vector_env.SyncVectorEnv; it must hold",
    ),
    "an Env among callables": (
        lambda: {"near": {"a": [Reach, Reach()]}},
        2,
        ("near", "a"),
        "at near / a: a list with a support.reaching.Reach; it must hold callables that each make",
    ),
    "a list of lists": (lambda: [[Reach]], 1, (), "found a list with a list; it must hold"),
    "a list of text": (lambda: ["CartPole-v1"], 1, (), "found a list with a str; it must hold"),
    # Another number of envs
    "one Env for two": (
        Reach,
        2,
        ("walk", "walk"),
        "one Env where 2 envs were asked for; return a callable.",
    ),
    "one Env of a task for two": (
        lambda: {"a": Reach()},
        2,
        ("walk", "a"),
        "at walk / a: one Env where 2 envs were asked for; return a callable.",
    ),
    "a VectorEnv of two for one": (
        lambda: vector(2),
        1,
        ("walk", "walk"),
        "a VectorEnv of 2 where 1 envs were asked for.",
    ),
    "a VectorEnv of one for four": (
        lambda: {"near": {"a": vector(1)}},
        4,
        ("near", "a"),
        "at near / a: a VectorEnv of 1 where 4 envs were asked for.",
    ),
    "a VectorEnv that has no number": (
        Sizeless,
        1,
        ("walk", "walk"),
        "a VectorEnv of None where 1 envs were asked for.",
    ),
    "a short list": (
        lambda: {"a": makers(3)},
        4,
        ("walk", "a"),
        "at walk / a: a list of 3 callables where 4 were asked for.",
    ),
    "a long list": (lambda: makers(3), 1, ("walk", "walk"), "a list of 3 callables where 1 were"),
    "a callable that makes a VectorEnv of two for three": (
        lambda: {"a": lambda: vector(2)},
        3,
        ("walk", "a"),
        "at walk / a: a VectorEnv of 2 where 3 envs were asked for.",
    ),
    # Callables that make something else
    "a callable that makes rubbish": (
        lambda: {"a": lambda: 5},
        1,
        ("walk", "a"),
        "at walk / a: a callable that made an int.",
    ),
    "a callable that makes nothing": (
        lambda: [Reach, lambda: None],
        2,
        ("walk", "walk"),
        "a callable that made a NoneType.",
    ),
    "a callable that makes what is like an Env": (
        lambda: QuacksLikeEnv,
        1,
        ("walk", "walk"),
        "a callable that made a support.reaching.QuacksLikeEnv, which is like an Env but is not a",
    ),
    "a list of callables that make vector envs": (
        lambda: [lambda: vector(2), lambda: vector(2)],
        2,
        ("walk", "walk"),
        "a callable that made a gymnasium.vector.sync_vector_env.SyncVectorEnv.",
    ),
    "a callable that makes the same Env again": (
        lambda: lambda: AGAIN,
        2,
        ("walk", "walk"),
        "at walk / walk: callables that make the same Env again.",
    ),
    "callables whose envs differ": (
        lambda: {"a": [Reach, Wide]},
        2,
        ("walk", "a"),
        "at walk / a: envs that cannot be a VectorEnv: RuntimeError: ",
    ),
    "an Env without spaces": (
        lambda: {"a": Spaceless()},
        1,
        ("walk", "a"),
        "at walk / a: envs that cannot be a VectorEnv: AttributeError: ",
    ),
}


@pytest.mark.parametrize(("returned", "n", "key", "problem"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_with_its_place(returned, n, key, problem):
    value = returned()
    with pytest.raises(InvalidEnvs) as caught:
        normalize(value, n, name="walk")
    assert caught.value.key == key
    assert problem in str(caught.value)


def test_the_error_says_what_is_allowed():
    with pytest.raises(InvalidEnvs) as caught:
        normalize({"near": {"a": 5}}, 1, name="walk")
    assert str(caught.value) == (
        "make_env must return a gymnasium Env or VectorEnv, a callable that makes an Env or a list "
        "of them, {task: env} or {suite: {task: env}}: at near / a: an int."
    )
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ContractError)


def test_an_entry_is_vectorized_by_itself():
    assert vectorize(Reach, 3, key=("near", "a")).num_envs == 3
    with pytest.raises(InvalidEnvs, match="at near / a: one Env where 3 envs"):
        vectorize(Reach(), 3, key=("near", "a"))
