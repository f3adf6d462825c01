import msgspec
import numpy as np
import pytest
from assets.vector_spaces.trees import build
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.space_trees import trees

from envhub.wire.messages import Opened, decode_reply, encode
from envhub.wire.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    Leaf,
    MultiBinarySpec,
    MultiDiscreteSpec,
    SpaceSpec,
    TextSpec,
    TupleSpec,
    UnsupportedSpace,
    decode_space,
    encode_space,
    leaves,
    outline_of,
    unflatten,
)

IMAGE = spaces.Box(0, 255, (480, 640, 3), np.uint8)


def values_of(sample):
    """The values at the leaves of a sample."""
    match sample:
        case dict():
            return [leaf for part in sample.values() for leaf in values_of(part)]
        case tuple():
            return [leaf for part in sample for leaf in values_of(part)]
    return [sample]


def cross(space):
    """A space as the host sees it, through the bytes of a real answer."""
    spec = encode_space(space)
    sent = Opened(1, spec, spec, None, {})
    received = decode_reply(encode(sent))
    assert isinstance(received, Opened)
    return decode_space(received.observation_space)


def identical(ours, theirs):
    """Stricter than Gymnasium's equality, which lets bounds be close and orders differ."""
    assert type(ours) is type(theirs)
    assert ours == theirs
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    match theirs:
        case spaces.Box():
            for name in ("low", "high", "bounded_below", "bounded_above"):
                mine, its = getattr(ours, name), getattr(theirs, name)
                assert mine.dtype == its.dtype
                assert np.array_equal(mine, its)
        case spaces.Discrete():
            assert (type(ours.n), type(ours.start)) == (type(theirs.n), type(theirs.start))
        case spaces.MultiDiscrete():
            assert (ours.nvec.dtype, ours.start.dtype) == (theirs.nvec.dtype, theirs.start.dtype)
        case spaces.Text():
            assert ours.character_list == theirs.character_list
        case spaces.Dict():
            assert list(ours) == list(theirs)
            assert ours.sort_keys == theirs.sort_keys
            for key in theirs:
                identical(ours[key], theirs[key])
        case spaces.Tuple():
            for mine, its in zip(ours, theirs, strict=True):
                identical(mine, its)


# Crossing


@settings(deadline=None)
@given(trees(extremes=True))
@example(["box", "<i8", [2], -np.inf, np.inf])
@example(["box", "|i1", [], 0, np.inf])
@example(["unsorted", [["b", ["multi_binary", 1]], ["a", ["multi_binary", 2]]]])
def test_a_space_crosses_unchanged(tree):
    space = build(tree)
    identical(cross(space), space)


@settings(deadline=None)
@given(trees(), st.integers(0, 2**31))
def test_a_space_that_crossed_samples_alike(tree, seed):
    space = build(tree)
    crossed = cross(space)
    space.seed(seed)
    crossed.seed(seed)
    samples = values_of(crossed.sample()), values_of(space.sample())
    for ours, theirs in zip(*samples, strict=True):
        assert type(ours) is type(theirs)
        assert np.array_equal(ours, theirs)


@settings(deadline=None)
@given(trees())
@example(["unsorted", [["b", ["multi_binary", 1]], ["a", ["multi_binary", 2]]]])
def test_a_space_that_crossed_batches_alike(tree):
    space = build(tree)
    identical(batch_space(cross(space), 3), batch_space(space, 3))


def test_whole_numbers_without_bounds_can_be_sampled():
    space = cross(spaces.Box(-np.inf, np.inf, (3,), np.int64))
    assert space.sample() in space


def test_the_bounds_of_an_image_cross_as_two_numbers():
    assert len(msgspec.msgpack.encode(encode_space(IMAGE))) < 100


def test_a_subclass_crosses_as_its_kind():
    class Joints(spaces.Box):
        pass

    assert type(cross(Joints(-1, 1, (7,)))) is spaces.Box


# Spaces that do not cross


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (build(["graph"]), "space Graph cannot cross"),
        (build(["sequence"]), "space Sequence cannot cross"),
        (build(["one_of"]), "space OneOf cannot cross"),
        (build(["tuple", [["multi_binary", 2], ["graph"]]]), "space Graph at '1' cannot cross"),
        (build(["dict", [["a", ["dict", [["b", ["one_of"]]]]]]]), "space OneOf at 'a/b' cannot"),
        (spaces.Box(-1, 1, (2,), np.longdouble), "Box of dtype float128 at '' cannot cross"),
        (spaces.Box(-1, 1, (2,), np.dtype(">f4")), "Box of dtype >f4 at '' cannot cross"),
        (spaces.Discrete(3, dtype=np.dtype(">i4")), "Discrete of dtype >i4 at '' cannot cross"),
        (
            spaces.Tuple([spaces.MultiDiscrete([3], np.dtype(">i8"))]),
            "MultiDiscrete of dtype >i8 at '0' cannot cross",
        ),
        (spaces.Dict({"a/b": spaces.Discrete(2)}), "key 'a/b' of a Dict at '': use text without /"),
        (spaces.Dict([("", spaces.Discrete(2))]), "key '' of a Dict"),
        (spaces.Dict([(1, spaces.Discrete(2))]), "key 1 of a Dict"),
        (spaces.Text(2**20 + 1), "Text of up to 1048577 characters, 62 different ones, at '' cann"),
    ],
)
def test_an_unsupported_space_is_refused_by_name(space, problem):
    with pytest.raises(UnsupportedSpace) as caught:
        encode_space(space)
    assert problem in str(caught.value)


class Instructions(spaces.Space):
    """A space of a benchmark's own, whose samples are text."""

    def __init__(self, dtype):
        super().__init__((), dtype)

    def sample(self, mask=None, probability=None):
        return "pick up the red cube"


class Nameless(spaces.Space):
    """A space of a benchmark's own that has no samples."""


@pytest.mark.parametrize("dtype", [None, str, np.dtype("U9")])
def test_a_space_whose_samples_are_text_crosses_as_text(dtype):
    space = spaces.Dict(word=Instructions(dtype), state=spaces.Box(0, 1, (2,)))
    crossed = cross(space)
    assert isinstance(crossed["word"], spaces.Text)
    assert crossed["word"].contains("pick up the red cube")
    assert leaves(space) == leaves(crossed)
    assert Leaf("word", None, ()) in leaves(crossed)


def test_a_space_without_samples_is_refused_by_name():
    with pytest.raises(UnsupportedSpace, match="space Nameless at 'x' cannot cross"):
        encode_space(spaces.Dict(x=Nameless((), np.float32)))
    assert leaves(Nameless((), np.float32)) == (Leaf("", np.dtype(np.float32), ()),)


F4 = np.float32
I8 = np.int64


@pytest.mark.parametrize(
    "spec",
    [
        BoxSpec("<c8", (2,), F4(0), F4(1)),
        BoxSpec("O", (2,), F4(0), F4(1)),
        BoxSpec(">f4", (2,), F4(0), F4(1)),
        BoxSpec("<f4", (2,), 0, 1),
        BoxSpec("<f4", (2,), None, F4(1)),
        BoxSpec("<f4", (2,), np.zeros(2), np.ones(2)),
        BoxSpec("<f4", (2,), np.zeros(3, F4), np.ones(3, F4)),
        BoxSpec("<f4", (2,), F4(1), F4(0)),
        BoxSpec("<f4", (2,), F4("nan"), F4(0)),
        BoxSpec("<f4", (2**15, 2**15), F4(0), F4(1)),
        BoxSpec("<f4", (2**31,) * 32, F4(0), F4(1)),
        DiscreteSpec(3, 0),
        DiscreteSpec(I8(0), I8(0)),
        DiscreteSpec(I8(-3), I8(0)),
        DiscreteSpec(F4(3), F4(0)),
        DiscreteSpec(np.ones(1, I8), np.ones(1, I8)),
        DiscreteSpec(I8(3), "0"),
        DiscreteSpec(np.int8(3), I8(1000)),
        MultiDiscreteSpec([2, 2], [0, 0]),
        MultiDiscreteSpec(np.ones(2), np.zeros(2)),
        MultiDiscreteSpec(np.ones(2, I8), np.zeros(3, I8)),
        MultiDiscreteSpec(np.zeros(2, I8), np.zeros(2, I8)),
        MultiBinarySpec(2**31),
        MultiBinarySpec((2**20, 2**20)),
        TextSpec(5, 3, "abc"),
        TupleSpec((TextSpec(0, 1, "".join(map(chr, range(256, 50000)))),) * 40),
        TupleSpec((BoxSpec("<f4", (2**14, 2**13), F4(0), F4(1)),) * 3),
        TupleSpec((TupleSpec((DiscreteSpec(I8(2), I8(0)),) * 100),) * 100),
        DictSpec((("a", DiscreteSpec(I8(2), I8(0))), ("a", MultiBinarySpec(2)))),
        DictSpec((("a/b", DiscreteSpec(I8(2), I8(0))),)),
        DictSpec((("", DiscreteSpec(I8(2), I8(0))),)),
    ],
    ids=lambda spec: repr(spec)[:60],
)
def test_a_message_that_is_no_space_is_refused(spec):
    with pytest.raises(ValueError, match=r"\w"):
        decode_space(spec)


def test_a_space_nested_too_deep_is_refused():
    spec = MultiBinarySpec(1)
    for _ in range(5000):
        spec = TupleSpec((spec,))
    with pytest.raises(ValueError, match="not a valid space"):
        decode_space(spec)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "box", "dtype": "<f4", "shape": [-1], "low": 0, "high": 1},
        {"type": "box", "dtype": "<f4", "shape": [1] * 33, "low": 0, "high": 1},
        {"type": "box", "dtype": 4, "shape": [1], "low": 0, "high": 1},
        {"type": "multi_binary", "n": 0},
        {"type": "multi_binary", "n": [2, -2]},
        {"type": "text", "min_length": -1, "max_length": 2, "charset": "a"},
        {"type": "text", "min_length": 1, "max_length": 2**40, "charset": "a"},
        {"type": "dict", "items": [[1, {"type": "multi_binary", "n": 1}]]},
        {"type": "tuple", "items": [{"type": "multi_binary", "n": 1}] * 4097},
        {"type": "graph"},
    ],
    ids=str,
)
def test_a_message_of_wrong_types_is_refused(data):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(data, SpaceSpec)


# Leaves

NESTED = spaces.Dict(
    [
        ("pixels", spaces.Dict(top=IMAGE)),
        ("pair", spaces.Tuple([spaces.Discrete(3), spaces.Text(5)])),
        ("goal", spaces.Box(-1, 1, (), np.float32)),
    ]
)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (IMAGE, (Leaf("", np.dtype("u1"), (480, 640, 3)),)),
        (spaces.Text(3), (Leaf("", None, ()),)),
        (spaces.MultiBinary([2, 3]), (Leaf("", np.dtype("i1"), (2, 3)),)),
        (
            NESTED,
            (
                Leaf("pixels/top", np.dtype("u1"), (480, 640, 3)),
                Leaf("pair/0", np.dtype("i8"), (), scalar=True),
                Leaf("pair/1", None, ()),
                Leaf("goal", np.dtype("f4"), ()),
            ),
        ),
        (spaces.Dict({}), ()),
    ],
)
def test_leaves(space, expected):
    assert leaves(space) == expected


def test_the_size_of_a_leaf():
    assert [leaf.nbytes for leaf in leaves(NESTED)] == [480 * 640 * 3, 8, 0, 4]


@settings(deadline=None)
@given(trees(), st.integers(0, 2**31))
def test_a_sample_is_made_again_from_its_leaves(tree, seed):
    space = build(tree)
    space.seed(seed)
    sample = space.sample()
    values = values_of(sample)
    paths = [leaf.path for leaf in leaves(space)]
    assert len(set(paths)) == len(paths) == len(values)
    again = unflatten(outline_of(space), dict(zip(paths, values, strict=True)))
    assert type(again) is type(sample)
    assert all(ours is theirs for ours, theirs in zip(values_of(again), values, strict=True))
