import datetime
import enum
import math
from collections import OrderedDict, UserDict, namedtuple
from contextlib import suppress
from types import MappingProxyType

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from envhub.wire.values import DTYPES, NotPortable, extension, portable


def cross(value):
    """A value as the other side sees it."""
    return msgspec.msgpack.decode(
        msgspec.msgpack.encode(portable(value)), type=object, ext_hook=extension
    )


def same(ours, theirs):
    """Equal in value and in type, all the way down."""
    assert type(ours) is type(theirs)
    match theirs:
        case dict():
            assert list(ours) == list(theirs)
            for key in theirs:
                same(ours[key], theirs[key])
        case list() | tuple():
            assert len(ours) == len(theirs)
            for mine, its in zip(ours, theirs, strict=True):
                same(mine, its)
        case np.ndarray() | np.generic():
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            assert ours.tobytes() == theirs.tobytes()
        case float():
            assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))
            assert math.copysign(1, ours) == math.copysign(1, theirs) or math.isnan(theirs)
        case _:
            assert ours == theirs


NUMPY = [np.dtype(name) for name in sorted(DTYPES)]
ARRAYS = st.sampled_from(NUMPY).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0))
)
SCALARS = st.sampled_from(NUMPY).flatmap(
    lambda dtype: arrays.arrays(dtype, ()).map(lambda array: array[()])
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**1000), 2**1000),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(),
    st.binary(),
)
VALUES = st.recursive(
    st.one_of(PLAIN, ARRAYS, SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(VALUES)
@example(np.float64(1.5))
@example(np.array(False))
@example(2**64)
@example(-(2**63) - 1)
@example((((), []), {"": ({},)}))
def test_a_value_crosses_unchanged(value):
    same(cross(value), value)


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Metres(float):
    pass


Point = namedtuple("Point", "x y")
GRID = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.str_("text"), "text"),
        (np.bytes_(b"raw"), b"raw"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Metres(2.5), 2.5),
        (Point(1, 2.0), (1, 2.0)),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict({"a": [1]}), {"a": [1]}),
        ({np.str_("key"): 1}, {"key": 1}),
        (np.asfortranarray(GRID), GRID),
        (GRID[::2, ::-1], np.array([[3, 2, 1, 0], [11, 10, 9, 8]])),
        (GRID.astype(">i4"), GRID.astype("<i4")),
        (np.broadcast_to(np.int8(4), (2, 2)), np.full((2, 2), 4, np.int8)),
    ],
    ids=repr,
)
def test_a_value_of_a_related_type_crosses_as_the_plain_one(value, expected):
    same(cross(value), expected)


def test_an_array_that_crossed_can_be_written_to():
    crossed = cross(GRID)
    crossed[0] = 7
    assert crossed[0].tolist() == [7] * 4


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "value is a object"),
        (lambda: 1, "value is a function"),
        ({1, 2}, "value is a set"),
        (1j, "value is a complex"),
        (datetime.date(2020, 1, 1), "value is a date"),
        (bytearray(b"x"), "value is a bytearray"),
        (np.array([None]), "value is an array of dtype object"),
        (np.array(["a"]), "value is an array of dtype <U1"),
        (np.complex64(1), "value is an array of dtype complex64"),
        (np.datetime64("2020"), "value is an array of dtype datetime64[Y]"),
        (np.longdouble(1), "value is an array of dtype float128"),
        (np.zeros(2, [("x", "f4")]), "value is an array of dtype [('x', '<f4')]"),
        ("\ud800", "value is text that UTF-8 cannot encode"),
        ({"a": ["\udfff"]}, "a[0] is text that UTF-8 cannot encode"),
        ({"\ud800": 1}, "value is text that UTF-8 cannot encode"),
        (2**1100, "value is an integer of more than 128 bytes"),
        ({1: 2}, "value has the key 1, which is not text"),
        ({"a": {None: 2}}, "a has the key None, which is not text"),
        ({"a": [0, {"b": (1, object())}]}, "a[1]/b[1] is a object"),
        (nested(33), "is nested deeper than 32 levels"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_a_value_that_cannot_cross_is_refused_with_its_place(value, problem):
    with pytest.raises(NotPortable) as caught:
        portable(value)
    assert problem in str(caught.value)


def test_the_deepest_value_that_crosses():
    same(cross(nested(32)), nested(32))


# What a worker may send


def header(dtype, shape, raw):
    return msgspec.msgpack.encode((dtype, shape, raw))


ARRAY, SCALAR, TUPLE, WHOLE = 1, 2, 3, 4


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (0, b""),
        (5, b""),
        (-1, b""),
        (ARRAY, b""),
        (ARRAY, b"\xc1"),
        (ARRAY, header("|O", (1,), bytes(8))),
        (ARRAY, header("<U1", (1,), bytes(4))),
        (ARRAY, header(">f4", (1,), bytes(4))),
        (ARRAY, header("f4", (1,), bytes(4))),
        (ARRAY, header("<f4", (2,), bytes(4))),
        (ARRAY, header("<f4", (-1, -1), bytes(4))),
        (ARRAY, header("<f4", (1,) * 33, bytes(4))),
        (ARRAY, header("<f4", (2**63, 0), b"")),
        (ARRAY, header("<f4", (0, 2**62, 2**62), b"")),
        (ARRAY, msgspec.msgpack.encode(("<f4", (1,)))),
        (ARRAY, msgspec.msgpack.encode(("<f4", ("1",), bytes(4)))),
        (SCALAR, header("<f4", (1,), bytes(4))),
        (SCALAR, header("<f4", (), bytes(8))),
        (TUPLE, b""),
        (TUPLE, msgspec.msgpack.encode({"a": 1})),
        (TUPLE, msgspec.msgpack.encode([1]) + b"x"),
        (TUPLE, msgspec.msgpack.encode([msgspec.msgpack.Ext(9, b"")])),
        (WHOLE, bytes(129)),
    ],
    ids=repr,
)
def test_an_extension_that_does_not_fit_together_is_refused(code, data):
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        extension(code, memoryview(data))


@given(st.integers(-128, 127), st.binary())
def test_any_bytes_are_a_value_or_refused(code, data):
    with suppress(ValueError, msgspec.MsgspecError):
        extension(code, memoryview(data))


def test_tuples_nested_without_end_are_refused():
    data = msgspec.msgpack.encode([])
    for _ in range(5000):
        data = msgspec.msgpack.encode([msgspec.msgpack.Ext(TUPLE, data)])
    with pytest.raises((ValueError, RecursionError)):
        extension(TUPLE, memoryview(data))
