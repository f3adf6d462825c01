"""The rule for a value that may be sent and recorded."""

import math

import pytest

from envhub.values import MAX_DEPTH, find_value_problem


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**63), 2**64 - 1, 1.5, "ä", [1, [2]], {"a": {"b": None}}, nested(MAX_DEPTH)],
)
def test_good(value):
    assert find_value_problem(value) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**64, "is not a 64-bit number"),
        (-(2**63) - 1, "is not a 64-bit number"),
        (math.nan, "is not a 64-bit number"),
        ([math.inf], "is not a 64-bit number"),
        ("\ud800", "is text that UTF-8 cannot encode"),
        ({"a\udfff": 1}, "is text that UTF-8 cannot encode"),
        ({1: 2}, "has a key that is not text"),
        ([{3}], "is a set"),
        (nested(MAX_DEPTH + 1), "is nested deeper than 16 levels"),
    ],
)
def test_bad(value, problem):
    assert find_value_problem(value) == problem


def test_what_is_only_sent_may_be_infinite():
    assert find_value_problem(-math.inf, infinite=True) is None
    assert find_value_problem(math.nan, infinite=True) == "is not a 64-bit number"
