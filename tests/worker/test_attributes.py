"""What envs say about themselves: as attributes or methods, behind wrappers, or not at all."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from support.counting import Counting

from envhub.worker.attributes import (
    description_of,
    horizon_of,
    instruction_before_reset,
    instruction_of,
)


def wrapped(env: gym.Env) -> gym.Env:
    return gym.wrappers.OrderEnforcing(gym.wrappers.PassiveEnvChecker(env))


@pytest.mark.parametrize("wrap", [lambda env: env, wrapped])
@pytest.mark.parametrize(
    ("told", "instruction"),
    [
        ({"task_description": "pick it", "task": "pick"}, "pick it"),
        ({"task_description": lambda: "pick it"}, "pick it"),
        ({"task_description": np.str_("pick it")}, "pick it"),
        ({"task_description": "  ", "task": "pick"}, "pick"),
        ({"task_description": None, "task": lambda: "pick"}, "pick"),
        ({"task": lambda index: "pick"}, None),
        ({"task": str}, None),
        ({"task": object()}, None),
        ({"task": 3}, None),
        ({}, None),
    ],
)
def test_instruction(told, instruction, wrap):
    assert instruction_of(wrap(Counting(**told))) == instruction


def test_the_description_alone():
    assert description_of(Counting(task="pick")) is None
    assert description_of(Counting(task_description="pick it")) == "pick it"


def test_a_long_or_damaged_instruction_can_be_sent():
    assert len(instruction_of(Counting(task="x" * 30_000))) == 10_000
    assert instruction_of(Counting(task="red \ud800 cube")) == "red ? cube"


def test_before_the_first_reset_an_env_may_not_be_able_to_say():
    def task():
        raise RuntimeError("reset first")

    env = Counting(task=task)
    assert instruction_before_reset(env) is None
    with pytest.raises(RuntimeError, match="reset first"):
        instruction_of(env)


@pytest.mark.parametrize("wrap", [lambda env: env, wrapped])
@pytest.mark.parametrize(
    ("told", "horizon"),
    [
        ({"_max_episode_steps": 7, "max_steps": 5}, 7),
        ({"_max_episode_steps": lambda: 7}, 7),
        ({"max_episode_steps": np.int32(7), "max_steps": 5}, 7),
        ({"max_steps": 7, "_max_steps": 5}, 7),
        ({"_max_steps": 7, "spec": SimpleNamespace(max_episode_steps=5)}, 7),
        ({"spec": SimpleNamespace(max_episode_steps=7)}, 7),
        ({"horizon": 7, "spec": SimpleNamespace(max_episode_steps=5)}, 7),
        ({"_max_steps": 7, "horizon": 5}, 7),
        ({"_max_episode_steps": None, "max_steps": 7}, 7),
        ({"_max_episode_steps": 0}, None),
        ({"_max_episode_steps": True}, None),
        ({"_max_episode_steps": "100"}, None),
        ({"_max_episode_steps": 1.5}, None),
        ({"_max_episode_steps": 2**62}, None),
        ({}, None),
    ],
)
def test_horizon(told, horizon, wrap):
    env = Counting(**told)
    env.spec = told.get("spec")
    found = horizon_of(env if env.spec else wrap(env))
    assert found == horizon
    assert type(found) in (int, type(None))
