"""Spaces of every kind, for hypothesis."""

import numpy as np
from hypothesis import strategies as st

from envhub.wire.values import DTYPES

WHOLE = sorted(name for name in DTYPES if name[1] in "iu")

FLOATS = sorted(name for name in DTYPES if name[1] == "f")

# Trees of every kind of space that crosses; `build` makes spaces of them


def trees(*, extremes=False):
    """With extremes also those bounds that Gymnasium itself cannot sample between."""
    return st.recursive(
        st.one_of(boxes(extremes), DISCRETE, multi_discrete(), MULTI_BINARY, TEXT),
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(["dict", "pairs", "unsorted"]), items(inner)).map(list),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: ["tuple", parts]),
        ),
        max_leaves=5,
    )


def items(inner):
    keys = st.sampled_from(["zeta", "alpha", "Mid", "0", "a b", "ä", "_x", "b.c"])
    pairs = st.tuples(keys, inner).map(list)
    return st.lists(pairs, min_size=1, max_size=3, unique_by=lambda pair: pair[0])


@st.composite
def boxes(draw, extremes):
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    numbers = {"f": st.floats(-8, 8, width=16).map(lambda x: x + 0.0), "b": st.integers(0, 1)}
    unsigned, bounds = dtype[1] == "u", np.iinfo(dtype) if dtype in WHOLE else None
    numbers |= {"u": st.integers(0, 99), "i": st.integers(-99, 99)}
    if extremes and bounds:
        numbers[dtype[1]] = st.integers(int(bounds.min), int(bounds.max))
    ends = st.tuples(numbers[dtype[1]], numbers[dtype[1]]).map(sorted)
    if draw(st.booleans()):
        low, high = draw(ends)
        if dtype in FLOATS or (not unsigned and extremes and dtype in WHOLE):
            low, high = draw(st.sampled_from([low, -np.inf])), draw(st.sampled_from([high, np.inf]))
        return ["box", dtype, shape, low, high]
    pairs = [draw(ends) for _ in range(int(np.prod(shape)))]
    low, high = (np.array([p[side] for p in pairs], dtype).reshape(shape) for side in (0, 1))
    # A list cannot say how many columns it has none of, and a point is no list.
    return ["box", dtype, shape, *((low.tolist(), high.tolist()) if low.size and shape else (0, 1))]


@st.composite
def multi_discrete(draw):
    dtype = draw(st.sampled_from(WHOLE))
    shape = draw(st.sampled_from([(1,), (3,), (2, 2), (1, 2, 1)]))
    count = int(np.prod(shape))
    lowest = 0 if dtype[1] == "u" else -20
    nvec = draw(st.lists(st.integers(1, 20), min_size=count, max_size=count))
    start = draw(st.lists(st.integers(lowest, 20), min_size=count, max_size=count))
    arranged = (np.array(part).reshape(shape).tolist() for part in (nvec, start))
    return ["multi_discrete", dtype, *arranged]


DISCRETE = st.sampled_from(WHOLE).flatmap(
    lambda dtype: st.tuples(
        st.just("discrete"),
        st.just(dtype),
        st.integers(1, 30),
        st.integers(0 if dtype[1] == "u" else -30, 30),
    ).map(list)
)

MULTI_BINARY = st.one_of(
    st.integers(1, 5), st.lists(st.integers(1, 3), min_size=1, max_size=3)
).map(lambda n: ["multi_binary", n])

TEXT = st.tuples(
    st.just("text"),
    st.integers(0, 3),
    st.integers(3, 9),
    st.sampled_from(["abc", "cba", "01", " \n\"'\\/", "äß漢😀", "x"]),
).map(list)
