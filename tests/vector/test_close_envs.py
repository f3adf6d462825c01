"""Closing envs wherever they stand."""

from types import MappingProxyType

import pytest
from gymnasium.vector import SyncVectorEnv
from support.reaching import Batched, QuacksLikeVectorEnv, Reach

import envhub
from envhub.vector.close_envs import close_envs
from envhub.wire.normalize import normalize


class Stubborn(Reach):
    def close(self):
        super().close()
        raise OSError("busy")


def test_everything_is_closed_wherever_it_stands():
    envs = [Reach() for _ in range(6)]
    close_envs(
        {
            "near": {"a": envs[0], "b": [envs[1], (envs[2],)]},
            "far": MappingProxyType({"c": SyncVectorEnv([lambda: envs[3], lambda: envs[4]])}),
            "last": envs[5],
            "none": [{}, [], ()],
        }
    )
    assert [env.closings for env in envs] == [1, 1, 1, 1, 1, 1]


def test_one_env_is_closed():
    env = Reach()
    assert close_envs(env) is None
    assert env.closings == 1


def test_closing_twice_does_no_harm():
    envs = normalize({"near": {"a": [Reach, Reach], "b": Batched(2)}}, 2, name="walk")
    inner = envs["near"]["a"].envs
    close_envs(envs)
    close_envs(envs)
    assert [env.closings for env in inner] == [1, 1]
    assert envs["near"]["b"].closed


def test_an_env_that_stands_twice_is_closed_once():
    env = Reach()
    close_envs({"a": env, "b": [env, env]})
    assert env.closings == 1


def test_all_are_closed_even_if_one_fails():
    envs = [Reach(), Stubborn(), Reach()]
    with pytest.raises(OSError, match="busy"):
        close_envs(envs)
    assert [env.closings for env in envs] == [1, 1, 1]


def test_several_failures_are_all_told():
    envs = [Stubborn(), Reach(), Stubborn(), 5]
    with pytest.raises(ExceptionGroup, match="Some envs did not close") as caught:
        close_envs(envs)
    assert [type(problem) for problem in caught.value.exceptions] == [OSError, OSError, TypeError]
    assert [env.closings for env in envs[:3]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("rubbish", "kind"),
    [
        (None, "NoneType"),
        (5, "int"),
        ("reach", "str"),
        (b"reach", "bytes"),
        (Reach, "type"),
        ({Reach}, "set"),
        (QuacksLikeVectorEnv(), "QuacksLikeVectorEnv"),
    ],
)
def test_rubbish_is_refused_after_the_rest_was_closed(rubbish, kind):
    env = Reach()
    with pytest.raises(TypeError) as caught:
        close_envs({"a": {"b": rubbish}, "c": env})
    assert str(caught.value) == (
        f"close_envs takes envs and mappings or sequences of them, found {kind}"
    )
    assert env.closings == 1


def test_close_envs_is_public():
    assert envhub.close_envs is close_envs
