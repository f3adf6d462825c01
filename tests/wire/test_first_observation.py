"""The digest of what an episode began with."""

import hashlib

import numpy as np

from envhub.wire.first_observation import hash_observation, hash_state


def test_the_bytes_are_those_of_the_docs():
    """Made by hand, as docs/runs.md says."""
    place = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32).T  # not in the order of C
    leaves = [("say", "pick ä"), ("place", place), ("n", np.array(5)), ("x", None)]
    bytes_ = (
        b"envhub first observation 1\n"
        b'["n","<i8",[]]\n\x05\0\0\0\0\0\0\0'
        b'["place","<f4",[2,2]]\n' + np.float32([1, 3, 2, 4]).tobytes() + b'["say","text",[7]]\n'
        b"pick \xc3\xa4"
        b'["x","invalid",[]]\n'
    )
    assert hash_observation(leaves) == hashlib.sha256(bytes_).digest()
    assert hash_observation(reversed(leaves)) == hash_observation(leaves)


def test_what_makes_a_difference():
    one = np.zeros(4, np.uint8)
    others = [
        [("a", np.zeros(4, np.int8))],
        [("a", np.zeros((2, 2), np.uint8))],
        [("b", one)],
        [("a", one), ("b", np.zeros(0, np.uint8))],
        [("a", np.uint8([0, 0, 0, 1]))],
        [("a", "\0\0\0\0")],
        [],
    ]
    digests = {hash_observation(leaves) for leaves in ([("a", one)], *others)}
    assert len(digests) == 8
    assert hash_observation([("a", one.astype(">u2"))]) == hash_observation(
        [("a", one.astype("<u2"))]
    )


def test_a_state_of_which_nothing_is_observed():
    def digest(text):
        return hashlib.sha256(b"envhub initial state 1\n" + text).digest()

    assert hash_state(3, 17) == hash_state(3, 18) == digest(b'["init_state",3]')
    assert hash_state(None, 17) == digest(b'["seed",17]') != hash_state(17, 17)
