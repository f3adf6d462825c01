"""Spaces out of trees of plain data, so that a text describes any of them."""

import numpy as np
from gymnasium import spaces

UNSUPPORTED = {
    "graph": spaces.Graph(spaces.Discrete(2), spaces.Discrete(2)),
    "sequence": spaces.Sequence(spaces.Discrete(2)),
    "one_of": spaces.OneOf([spaces.Discrete(2), spaces.MultiBinary(2)]),
}


def build(tree):
    """The space that a tree of lists describes."""
    match tree:
        case ["box", dtype, shape, low, high]:
            bounds = [np.array(b, dtype) if isinstance(b, list) else b for b in (low, high)]
            return spaces.Box(*bounds, shape, np.dtype(dtype))
        case ["discrete", dtype, n, start]:
            return spaces.Discrete(n, start=start, dtype=np.dtype(dtype))
        case ["multi_discrete", dtype, nvec, start]:
            return spaces.MultiDiscrete(nvec, np.dtype(dtype), start=start)
        case ["multi_binary", n]:
            return spaces.MultiBinary(n)
        case ["text", shortest, longest, charset]:
            return spaces.Text(longest, min_length=shortest, charset=charset)
        case ["dict", items]:
            return spaces.Dict({key: build(item) for key, item in items})
        case ["pairs", items]:
            return spaces.Dict([(key, build(item)) for key, item in items])
        case ["unsorted", items]:
            return spaces.Dict({key: build(item) for key, item in items}, sort_keys=False)
        case ["tuple", items]:
            return spaces.Tuple([build(item) for item in items])
        case [kind]:
            return UNSUPPORTED[kind]
    raise ValueError(tree)
