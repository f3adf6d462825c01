"""How observations, courses of episodes and actions differ."""

import numpy as np
import pytest

from envhub.results.arrays import STEP
from envhub.results.differences import (
    PictureDifference,
    compare_actions,
    compare_first_states,
    find_divergence,
    is_picture,
    side_by_side,
)

PICTURE = np.random.default_rng(0).integers(0, 200, (4, 6, 3), np.uint8)


@pytest.mark.parametrize(
    ("other", "finding", "words"),
    [
        (PICTURE, "same", None),
        (PICTURE + np.eye(4, 6, dtype=np.uint8)[:, :, None], "same to rounding", None),
        (
            PICTURE + np.uint8(40),
            "differs",
            "40.0 levels brighter, 40.0 apart on average",
        ),
        (PICTURE[::-1, ::-1], "differs", "turned by 180 degrees"),
        (PICTURE[::-1], "differs", "upside down"),
        (PICTURE[:, ::-1], "differs", "mirrored"),
        (PICTURE[:, :, ::-1], "differs", "red and blue exchanged"),
        (PICTURE[:2], "differs", "4x6 in A, 2x6 in B"),
    ],
)
def test_pictures(other, finding, words):
    found = PictureDifference("suite", "task", 0, "pixels", PICTURE, other)
    assert found.finding == finding
    assert words is None or found.words.startswith(words)
    assert side_by_side(found).shape == (
        4,
        6 * (3 if found.alike else 2) + (8 if found.alike else 4),
        3,
    )


def test_one_pixel_of_another_color_is_no_rounding():
    other = PICTURE.copy()
    other[0, 0] = 255
    assert PictureDifference("s", "t", 0, "p", PICTURE, other).finding == "differs"


def test_what_a_picture_is():
    assert is_picture(PICTURE)
    assert is_picture(PICTURE[:, :, :1])
    assert not is_picture(PICTURE.astype(float))
    assert not is_picture(PICTURE[0])
    assert not is_picture(None)


@pytest.mark.parametrize(
    ("by", "finding"), [(0.0, "same"), (1e-8, "same to rounding"), (1e-4, "differs")]
)
def test_numbers(by, finding):
    one = {"place": np.array([0.5, 1.0]), "count": np.array([3])}
    other = {**one, "place": one["place"] + [0.0, by]}
    found, words = compare_first_states(one, other)
    assert found == finding
    assert words.startswith("place[1] is") == (by > 0)


def steps(*rewards, success=()):
    made = np.zeros(len(rewards), STEP)
    made["reward"] = rewards
    for step in success:
        made["success"][step - 1] = 1
    return made


def course(*values):
    return [{"x": np.array([value])} for value in values]


def test_courses():
    where = "task", 0, "A"
    rewards = steps(1.0, 1.0, 1.0)
    found = find_divergence(where, course(0, 1, 2, 3), course(0, 1, 2, 3), (rewards, rewards))
    assert (found.finding, found.words) == ("same", "bit-equal in all 3 steps")
    near = course(0, 1 + 1e-12, 2 + 1e-9, 3)
    found = find_divergence(where, course(0, 1, 2, 3), near, (rewards, rewards))
    assert (found.finding, found.first, found.apart) == ("same to rounding", 1, None)
    far = course(0, 1 + 1e-12, 2.5, 3.25)
    found = find_divergence(where, course(0, 1, 2, 3), far, (rewards, rewards))
    assert (found.finding, found.first, found.apart, found.leaf) == ("differs", 1, 2, "x[0]")
    assert (found.by, found.largest) == (0.5, 0.5)
    found = find_divergence(where, [], [], (rewards, steps(1.0, 1.0, 2.0)))
    assert (found.finding, found.reward, found.success) == ("differs", 3, None)
    found = find_divergence(where, [], [], (rewards, steps(1.0, 1.0, success=(2,))))
    assert (found.finding, found.reward, found.success) == ("differs", None, 2)
    found = find_divergence(where, [], [], (None, None))
    assert found.finding == "same"


def test_actions():
    where = "task", 0
    one = np.full((6, 2), 0.5, np.float32)
    assert compare_actions(where, one, one.copy()).finding == "same"
    assert compare_actions(where, None, None).finding == "same"
    assert compare_actions(where, one, None).finding == "differs"
    assert compare_actions(where, one, one[:0]).finding == "same"
    assert compare_actions(where, one, one[:, :1]).finding == "differs"
    near = one + np.float32(1e-6)
    assert compare_actions(where, one, near).finding == "same to rounding"
    grown = one + np.array([1e-6, 1e-5, 1e-4, 9e-4, 4e-3, 2e-2], np.float32)[:, None]
    assert compare_actions(where, one, grown).finding == "same to rounding"
    jumped = one + np.array([1e-7, 1e-7, 0.2, 0.2, 0.2, 0.2], np.float32)[:, None]
    found = compare_actions(where, one, jumped)
    assert (found.finding, found.apart, found.may_grow) == ("differs", 3, True)
    apart = one.copy()
    apart[3:] = 0.1
    found = compare_actions(where, one, apart)
    assert (found.finding, found.apart, found.may_grow) == ("differs", 4, False)
