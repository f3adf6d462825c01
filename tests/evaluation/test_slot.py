"""Spaces that are described alike become the same objects."""

import numpy as np
from gymnasium import spaces

from envhub.evaluation.slot import KnownSpaces
from envhub.wire.messages import Opened, decode_reply, encode
from envhub.wire.spaces import encode_space


def pair(high: float = 1.0, *, size: int = 8):
    """Descriptions, as an env tells them."""
    image = spaces.Box(0, 255, (size, size, 3), np.uint8)
    state = spaces.Box(-1.0, high, (4,), np.float32)
    observation = spaces.Dict({"pixels": image, "state": state})
    sent = encode_space(observation), encode_space(spaces.Box(-1.0, 1.0, (2,), np.float32))
    received = decode_reply(encode(Opened(1, *sent, None, {})))
    return received.observation_space, received.action_space


def test_those_that_are_alike_are_the_same():
    known = KnownSpaces()
    first = known.of(*pair())
    assert first[0]["state"] == spaces.Box(-1.0, 1.0, (4,), np.float32)
    assert known.of(*pair()) is first
    assert known.of(*pair(2.0))[0]["state"] == spaces.Box(-1.0, 2.0, (4,), np.float32)
    assert known.of(*pair(size=9)) is not first


def test_many_different_ones_are_not_all_kept():
    known = KnownSpaces()
    first = known.of(*pair())
    for number in range(100):
        known.of(*pair(2.0 + number))
    assert known.of(*pair()) is not first
