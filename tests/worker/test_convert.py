"""A benchmark's own conversion of observations to LeRobot's names."""

import numpy as np
import pytest
from gymnasium import spaces

from envhub.errors import ContractError
from envhub.worker.convert import Converter

RAW = spaces.Dict(
    {
        "front": spaces.Box(0, 255, (4, 6, 3), np.uint8),
        "joints": spaces.Box(1.0, 2.0, (7,), np.float64),
        "mode": spaces.Discrete(3),
        "words": spaces.Text(5),
    }
)


def convert(observation):
    return {
        "observation.images.front": observation["front"][::-1, ::-1],
        "observation.state": observation["joints"].astype(np.float32)[:2],
        "observation.grasped": observation["joints"] > 1.5,
    }


def test_the_space_follows_from_what_the_function_returns():
    space = Converter(":convert", convert, RAW).space
    assert list(space) == ["observation.grasped", "observation.images.front", "observation.state"]
    assert space["observation.images.front"] == spaces.Box(0, 255, (4, 6, 3), np.uint8)
    assert space["observation.state"] == spaces.Box(-np.inf, np.inf, (2,), np.float32)


def test_an_observation_is_converted():
    observation = RAW.sample()
    converted = Converter(":convert", convert, RAW).convert(observation)
    np.testing.assert_array_equal(
        converted["observation.images.front"], observation["front"][::-1, ::-1]
    )


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ([1], "must return a mapping of names, found list"),
        ({}, "must return a mapping of names, found dict"),
        ({"state": np.zeros(2)}, "returned the name 'state'; names start with observation."),
        ({"observation.a/b": np.zeros(2)}, "hold no slash"),
        ({3: np.zeros(2)}, "returned the name 3"),
        ({"observation.state": "abc"}, "observation.state of dtype <U3, which is not a number"),
        ({"observation.state": np.array([None])}, "which is not a number"),
    ],
)
def test_what_no_policy_takes_is_refused(returned, problem):
    with pytest.raises(ContractError) as caught:
        Converter(":own", lambda _: returned, RAW)
    assert problem in str(caught.value)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(ContractError, match=":VERSION is not a function"):
        Converter(":VERSION", "1.0", RAW)
