"""The random numbers that all code of a process shares."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support.needs import needs_torch

from envhub.worker.randomness import seed_shared_generators


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
