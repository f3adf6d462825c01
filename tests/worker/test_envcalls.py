"""What an env may return, and what is made of it."""

import random
import re
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from support.needs import needs_torch

from envhub.errors import ContractError
from envhub.wire.step_results import success_of
from envhub.worker.envcalls import seed_shared_generators, take_step


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


@pytest.fixture(autouse=True)
def own_states():
    """Take back what the test does to the generators of this process."""
    before = random.getstate(), np.random.get_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])


def draw() -> tuple[float, ...]:
    return random.random(), np.random.rand()


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 1, 2**127 + 3])
def test_the_same_seed_gives_the_same_numbers(seed):
    seed_shared_generators(seed)
    first = draw()
    assert draw() != first
    seed_shared_generators(seed)
    assert draw() == first
    seed_shared_generators(seed + 1)
    assert draw() != first


def test_torch_is_seeded_if_it_is_imported(monkeypatch):
    seeds: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(manual_seed=seeds.append))
    seed_shared_generators(7)
    seed_shared_generators(2**63 + 8)
    assert seeds == [7, 8]


@pytest.mark.parametrize("module", [None, SimpleNamespace()])
def test_what_is_not_torch_is_left_alone(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "torch", module)
    seed_shared_generators(7)


def test_torch_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    seed_shared_generators(7)
    assert "torch" not in sys.modules


@needs_torch
def test_the_real_torch_gives_the_same_numbers():
    import torch

    seed_shared_generators(2**63 + 9)
    first = torch.rand(3)
    assert not torch.equal(torch.rand(3), first)
    seed_shared_generators(2**63 + 9)
    assert torch.equal(torch.rand(3), first)
