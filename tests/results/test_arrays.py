"""Stored arrays are those of others: whatever is wrong with one is a sentence."""

import os
import struct

import numpy as np
import pytest
from support.forgery import save_arrays

from envhub.errors import RunDirectoryError
from envhub.results.arrays import STEP, read_arrays


@pytest.fixture
def place(tmp_path):
    (tmp_path / "actions").mkdir()
    return tmp_path


def test_what_was_stored(place):
    for array in (np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 0, 2])):
        save_arrays(place, 4, array, np.ones(3, STEP))
        found = read_arrays(place, 4).actions
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert np.array_equal(np.load(place / "actions" / "4.npy"), array)
        assert np.array_equal(read_arrays(place, 4).steps, np.ones(3, STEP))
    np.save(place / "actions" / "4.npy", array)
    assert read_arrays(place, 4).steps is None
    assert read_arrays(place, 5).actions is None
    assert read_arrays(place, 5).steps is None


def header(text: bytes) -> bytes:
    padded = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged"),
        (b"nonsense and more of it", "is damaged"),
        (header(b"{'descr': ('''"), "is damaged"),
        (header(b"{'descr': '<f4' 'fortran_order'"), "is damaged"),
        (header(b"(" * 100), "is damaged"),
        (header(b"{'descr': [], 'fortran_order': False, 'shape': (1,), }"), "is damaged"),
        (header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }"), "content does"),
        (
            header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9), }"),
            "content does not",
        ),
        (
            header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 1), }") + b"1" * 8,
            "content does not",
        ),
        (
            header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"\0" * 8,
            "damaged",
        ),
        (
            header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }") + b"1" * 9,
            "damaged",
        ),
        (
            3 * (header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }") + b"1" * 4),
            "more than actions and steps",
        ),
        (header(b"__import__('os').getcwd()"), "is damaged"),
    ],
)
def test_a_file_that_is_no_array(place, content, said):
    (place / "actions" / "0.npy").write_bytes(content)
    with pytest.raises(RunDirectoryError, match=said):
        read_arrays(place, 0)


def test_arrays_of_something_else(place):
    np.save(place / "actions" / "0.npy", np.array(["a", "b"]))
    np.save(place / "actions" / "1.npy", np.array(1.0))
    save_arrays(place, 2, np.zeros(3), np.zeros(3))
    for number in (0, 1):
        with pytest.raises(RunDirectoryError, match="not actions"):
            read_arrays(place, number)
    with pytest.raises(RunDirectoryError, match="not steps"):
        read_arrays(place, 2)


def test_what_is_no_file(place):
    os.mkfifo(place / "actions" / "0.npy")
    (place / "actions" / "1.npy").mkdir()
    for number in (0, 1):
        with pytest.raises(RunDirectoryError, match=r"regular file|damaged|cannot be read"):
            read_arrays(place, number)


def test_a_file_that_only_seems_large(place):
    path = place / "actions" / "0.npy"
    path.write_bytes(header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }"))
    os.truncate(path, 2**40)  # sparse: a terabyte that takes no room
    with pytest.raises(RunDirectoryError, match="1,099,511,627,776 bytes, more than an episode"):
        read_arrays(place, 0)


def test_links_are_not_followed(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    np.save(elsewhere / "0.npy", np.zeros((2, 2)))
    (place / "actions" / "0.npy").symlink_to(elsewhere / "0.npy")
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        read_arrays(place, 0)
    (place / "actions" / "0.npy").unlink()
    (place / "actions").rmdir()
    (place / "actions").symlink_to(elsewhere)
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        read_arrays(place, 0)
