"""What a published `make_env` is called with."""

import abc
import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import pytest

from envhub.errors import ContractError
from envhub.worker.arguments import call_make_env


def called(signature: str, env_args: dict[str, Any], **names: Any) -> dict[str, Any]:
    """Call a function of that signature, and return its arguments; `**` is merged into them."""
    exec(f"def make_env({signature}):\n return locals()", names)
    arguments: Any = call_make_env(names["make_env"], env_args)
    return arguments.pop("kwargs", {}) | arguments


def cfg(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**values)


BOTH = {"n_envs": 1, "use_async_envs": False}


@pytest.mark.parametrize(
    ("signature", "env_args", "expected"),
    [
        ("", {}, {}),
        ("n_envs=1", {}, {"n_envs": 1}),
        ("n_envs, use_async_envs", {}, BOTH),
        ("n_envs, use_async_envs, /", {}, BOTH),
        ("*, use_async_envs=True", {}, {"use_async_envs": False}),
        ("**kwargs", {}, BOTH),
        ("**kwargs", {"a": 2}, {**BOTH, "a": 2}),
        ("n_envs=1, a=0", {"a": 2}, {"n_envs": 1, "a": 2}),
        ("n_envs=1, a=0", {"a": [1, {"b": 2}]}, {"n_envs": 1, "a": [1, {"b": 2}]}),
        ("n_envs=1, cfg=None", {}, {"n_envs": 1, "cfg": None}),
        ("n_envs, cfg", {}, {"n_envs": 1, "cfg": cfg()}),
        ("n_envs=1, cfg=None", {"a": 2}, {"n_envs": 1, "cfg": cfg(a=2)}),
        ("a=0, cfg=None", {"a": 2, "b": 3}, {"a": 2, "cfg": cfg(b=3)}),
        ("a=0, cfg=None", {"a": 2}, {"a": 2, "cfg": None}),
        ("a=0, cfg=None, **kwargs", {"a": 2, "b": 3}, {**BOTH, "a": 2, "cfg": cfg(b=3)}),
        ("n_envs, cfg, /", {"a": 2}, {"n_envs": 1, "cfg": cfg(a=2)}),
        ("scene='s', cfg=None, /, *, a=0", {"b": 2}, {"scene": "s", "cfg": cfg(b=2), "a": 0}),
        ("*cfg", {}, {"cfg": ()}),
        ("*cfg", {"a": 2}, {"cfg": (cfg(a=2),)}),
        ("size=3, *cfg, n_envs=1", {"a": 2}, {"size": 3, "cfg": (cfg(a=2),), "n_envs": 1}),
        ("**cfg", {"a": 2}, {"cfg": {**BOTH, "a": 2}}),
        ("cfg", {"cfg": {"a": 2}}, {"cfg": cfg(a=2)}),
        ("cfg", {"cfg": {"a": 2}, "b": 3}, {"cfg": cfg(a=2, b=3)}),
        ("cfg", {"cfg": "fast"}, {"cfg": "fast"}),
        ("cfg, **kwargs", {"cfg": "fast", "b": 3}, {**BOTH, "cfg": "fast", "b": 3}),
        ("*cfg", {"cfg": "fast"}, {"cfg": ("fast",)}),
        ("cfg: dict", {"a": 2}, {"cfg": {"a": 2}}),
        ("cfg={'a': 1, 'b': 1}", {"a": 2}, {"cfg": {"a": 2, "b": 1}}),
    ],
)
def test_each_argument_goes_to_one_place(signature, env_args, expected):
    assert called(signature, env_args) == expected


@pytest.mark.parametrize(
    ("signature", "body", "env_args", "expected"),
    [
        ("**kwargs", "kwargs['cfg'].size", {"size": 3}, 3),
        ("**kwargs", "kwargs['cfg']['size']", {"size": 3}, 3),
        ("**kwargs", "kwargs['cfg'].size", {"cfg": {"size": 3}}, 3),
        ("**kwargs", "kwargs['cfg']['size']", {"cfg": {"size": 3}}, 3),
        ("**kwargs", "kwargs['cfg'].get('size', 5), kwargs['n_envs']", {}, (5, 1)),
        ("**kwargs", "kwargs.get('cfg'), kwargs['size']", {"size": 3}, (None, 3)),
        ("*args, **kwargs", "hidden(*args, **kwargs)", {"size": 3}, ([("size", 3)], 1, False)),
        ("*args, **kwargs", "hidden(*args, **kwargs)", {}, ([], 1, False)),
    ],
)
def test_a_cfg_that_the_signature_does_not_tell(signature, body, env_args, expected):
    names: dict[str, Any] = {}
    exec(
        "def hidden(cfg, n_envs=3, use_async_envs=True):\n"
        " return [(name, cfg[name]) for name in cfg], n_envs, use_async_envs\n"
        f"def make_env({signature}):\n return {body}",
        names,
    )
    assert call_make_env(names["make_env"], env_args) == expected


@pytest.mark.parametrize("raised", [KeyError("size"), TypeError("missing 1 required 'scene'")])
def test_another_error_is_not_taken_for_a_missing_cfg(raised):
    calls = []

    def make_env(**kwargs):
        calls.append(kwargs)
        raise raised

    with pytest.raises(type(raised)) as caught:
        call_make_env(make_env, {})
    assert caught.value is raised
    assert calls == [BOTH]


def test_a_function_that_takes_neither_says_what_it_was_given():
    def make_env(n_envs, use_async_envs):
        return n_envs

    def hidden(*args, **kwargs):
        return make_env(*args, **kwargs)

    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        call_make_env(hidden, {"size": 3})


def test_a_cfg_whose_class_cannot_be_made():
    @dataclasses.dataclass
    class Base(abc.ABC):
        size: int = 1

        @abc.abstractmethod
        def make(self): ...

    assert called("cfg: Base", {"size": 3, "hub_path": "a/b"}, Base=Base) == {
        "cfg": cfg(size=3, hub_path="a/b")
    }


def test_a_callable_without_a_signature():
    class Unknown:
        __signature__ = "not a signature"

        def __call__(self, **kwargs):
            return kwargs

    assert call_make_env(Unknown(), {"a": [2]}) == {**BOTH, "a": [2]}
    assert call_make_env(dict, {"a": 2}) == {**BOTH, "a": 2}  # has none before Python 3.14


def test_partial_and_wrapped_functions_are_looked_through():
    def make_env(size, n_envs=1, cfg=None):
        return size, cfg

    assert call_make_env(functools.partial(make_env, 3), {"a": 2}) == (3, cfg(a=2))

    @functools.wraps(make_env)
    def wrapped(*args, **kwargs):
        return make_env(*args, **kwargs)

    assert call_make_env(wrapped, {"size": 4, "a": 2}) == (4, cfg(a=2))


@pytest.mark.parametrize(
    ("signature", "env_args", "message"),
    [
        (
            "n_envs=1",
            {"size": 2},
            "make_env(n_envs=1) takes no argument 'size': leave that --env-arg out.",
        ),
        ("*args", {"a": 1}, "make_env(*args) takes no argument 'a': leave that --env-arg out."),
        (
            "cfg",
            {"cfg": "fast", "a": 1},
            "make_env(cfg) takes no argument 'a': leave that --env-arg out.",
        ),
        (
            "cfg",
            {"cfg": {"a": 1}, "a": 1},
            "'a' is given twice: in the --env-arg cfg and as --env-arg.",
        ),
        ("n_envs", {"n_envs": 4}, "EnvHub sets n_envs itself: leave that --env-arg out."),
        (
            "n_envs",
            {"use_async_envs": True},
            "EnvHub sets use_async_envs itself: leave that --env-arg out.",
        ),
    ],
)
def test_what_it_cannot_take(signature, env_args, message):
    with pytest.raises(ContractError) as caught:
        called(signature, env_args)
    assert str(caught.value) == message


def test_a_parameter_that_nobody_gives():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'scene'"):
        called("scene, n_envs=1", {})
