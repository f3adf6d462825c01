"""Copies whose memory is used again, but never while somebody can see it."""

import gc

import numpy as np
import pytest
from support.needs import needs_torch

from envhub.vector.batches import ArrayPool, Batches

IMAGE = np.zeros((2, 100, 100, 3), np.uint8)


@pytest.fixture
def pool():
    return ArrayPool(IMAGE)


def address(array):
    return array.__array_interface__["data"][0]


def test_what_nobody_holds_is_lent_again(pool):
    first = pool.lend()
    where = address(first)
    del first
    assert address(pool.lend()) == where


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[1],
        lambda array: array.reshape(-1)[5:],
        memoryview,
        lambda array: {"deep": [array.T]},
        lambda array: np.frombuffer(array, np.uint8),
    ],
)
def test_what_somebody_holds_is_not(pool, hold):
    array = pool.lend()
    array[:] = 7
    held = hold(array)
    where = address(array)
    del array
    gc.collect()
    assert where not in [address(pool.lend()) for _ in range(10)]
    others = [pool.lend() for _ in range(10)]
    for other in others:
        other[:] = 1
    del held


@needs_torch
def test_a_tensor_holds_it_too(pool):
    import torch

    array = pool.lend()
    array[:] = 7
    tensor = torch.from_numpy(array)
    del array
    for _ in range(10):
        pool.lend()[:] = 1
    assert int(tensor.sum()) == 7 * IMAGE.size


def test_those_kept_for_long_make_room(pool):
    kept = [pool.lend() for _ in range(20)]
    assert len({address(array) for array in kept}) == 20
    recent = address(kept[-1])
    kept.pop()
    assert address(pool.lend()) == recent


def test_rows_are_copied_as_they_come():
    views = {
        "image": np.arange(2 * 20_000, dtype=np.int32).reshape(2, 20_000),
        "state": np.arange(6.0).reshape(2, 3),
        "flag": np.array([[2], [0]], np.uint8).view(np.bool_),
    }
    batches = Batches(views)
    batches.begin()
    batches.copy_row(1)
    views["image"][1] = -1  # the next step is no part of this batch
    batches.copy_row(0)
    views["image"][0] = -1
    batch = batches.finish()
    assert np.array_equal(batch["image"].reshape(-1), np.arange(40_000))
    assert batch["state"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert batch["flag"].view(np.uint8).tolist() == [[1], [0]]
    views["state"][:] = -1
    assert batch["state"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_batches_do_not_change_each_other():
    views = {"image": IMAGE.copy()}
    batches, seen = Batches(views), []
    for step in range(12):
        views["image"][:] = step
        batches.begin()
        batches.copy_row(0)
        batches.copy_row(1)
        seen.append(batches.finish()["image"])
    assert [int(array.min()) for array in seen] == list(range(12))
    assert [int(array.max()) for array in seen] == list(range(12))
