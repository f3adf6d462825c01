"""Where two episodes differ."""

import pytest

from envhub.wire.step_results import first_difference

ONE = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (ONE, None),
        ([{"a": "1", "b": "0"}, ONE[1]], "b at reset"),
        ([ONE[0], {"a": "0", "b": "0"}], "a, b at step 0"),
        ([ONE[0], {"a": "3"}], "b at step 0"),
        (ONE[:1], "the number of steps, 1 and 0"),
    ],
)
def test_the_first_difference(other, found):
    assert first_difference(ONE, other) == found


def test_an_observation_without_parts():
    assert first_difference([{"": "1"}], [{"": "2"}]) == "the observation at reset"
