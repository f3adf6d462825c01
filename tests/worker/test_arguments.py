"""What a published `make_env` is called with."""

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
