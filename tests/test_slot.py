"""Spaces that are alike become the same objects."""

import numpy as np
from gymnasium import spaces

from envhub.evaluation.slot import KnownSpaces


def pair(high: float = 1.0, *, size: int = 8):
    image = spaces.Box(0, 255, (size, size, 3), np.uint8)
    state = spaces.Box(-1.0, high, (4,), np.float32)
    return spaces.Dict({"pixels": image, "state": state}), spaces.Box(-1.0, 1.0, (2,), np.float32)


def test_the_first_of_those_that_are_alike():
    known = KnownSpaces()
    first, other = pair(), pair(2.0)
    assert known.first(first) is first
    assert known.first(pair()) is first
    assert known.first(other) is other
    assert known.first(pair(size=9)) is not first


def test_many_different_ones_are_not_all_kept():
    known = KnownSpaces()
    first = pair()
    known.first(first)
    for number in range(100):
        known.first(pair(2.0 + number))
    again = pair()
    assert known.first(again) is again
