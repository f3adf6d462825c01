"""What an env may return, and what is made of it."""

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from envhub.errors import ContractError
from envhub.wire.step_results import success_of
from envhub.worker.envcalls import take_step


class Returning(gym.Env):
    """Returns the same at each step."""

    def __init__(self, *outcome: Any):
        self._outcome = outcome

    def step(self, action):
        return (0, *self._outcome, {})


class Tensor:
    """Like a tensor on a device that numpy cannot read."""

    def __init__(self, value: Any, *, on_host: bool = False):
        self._value = value
        self._on_host = on_host

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self._value, on_host=True)

    def __array__(self, dtype=None, copy=None):
        if not self._on_host:
            raise TypeError("can't convert a tensor on another device to numpy")
        return np.asarray(self._value, dtype)


@pytest.mark.parametrize("reward", [1, True, 1.0, np.float32(1), np.ones(1), np.ones((1, 1))])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one], Tensor])
def test_a_reward_of_one_element_is_a_number(reward, wrap):
    _, number, *_ = take_step(Returning(wrap(reward), False, False), 0)
    assert (type(number), number) == (float, 1.0)


@pytest.mark.parametrize(
    "flag", [True, 1, 1.0, np.True_, np.array([True]), np.array(1), [True], Tensor([True])]
)
def test_flags(flag):
    _, _, terminated, truncated, _ = take_step(Returning(0.0, flag, False), 0)
    assert (terminated, truncated) == (True, False)
    assert type(terminated) is bool


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ((0.0, "no", False), "0.0, 'no', False"),
        ((0.0, False, "False"), "0.0, False, 'False'"),
        ((0.0, None, False), "0.0, None, False"),
        ((0.0, 2, False), "0.0, 2, False"),
        ((0.0, np.array([True, False]), False), "0.0, array([ True, False]), False"),
        (("1.0", False, False), "'1.0', False, False"),
        ((1j, False, False), "1j, False, False"),
        ((np.ones(2), False, False), "array([1., 1.]), False, False"),
        (([[1.0], [1.0, 2.0]], False, False), "[[1.0], [1.0, 2.0]], False, False"),
        ((np.ones(0), False, False), "array([], dtype=float64), False, False"),
    ],
)
def test_anything_else_is_an_error(outcome, found):
    message = f"step() must return a number as reward and two flags, found {found}."
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        take_step(Returning(*outcome), 0)


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, np.array([1]), [True], Tensor(1.0)])
@pytest.mark.parametrize("name", ["is_success", "success"])
def test_success(value, name):
    assert success_of({name: value}) is True
