"""The digest of what an episode began with; `docs/runs.md` says what enters it.

By it, episodes that only repeat each other are told from those that look alike in their actions and
rewards alone, and a run of another scene from that of its benchmark.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

_OBSERVATION = b"envhub first observation 1\n"
_STATE = b"envhub initial state 1\n"


def hash_observation(leaves: Iterable[tuple[str, Any]]) -> bytes:
    """Hash the leaves of an observation, each with its path; the order does not matter.

    Args:
        leaves: A path, and an array or a text; None for a leaf that is not as its space says.
    """
    digest = hashlib.sha256(_OBSERVATION)
    kind: str
    shape: tuple[int, ...]
    data: bytes | memoryview
    for path, value in sorted(leaves, key=lambda leaf: leaf[0]):
        if value is None:
            kind, shape, data = "invalid", (), b""
        elif isinstance(value, str):
            data = value.encode(errors="surrogatepass")
            kind, shape = "text", (len(data),)
        else:
            array = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            kind, shape, data = array.dtype.str, value.shape, array.data if array.size else b""
        digest.update(f"{json.dumps([path, kind, shape], separators=(',', ':'))}\n".encode())
        digest.update(data)
    return digest.digest()


def hash_state(init_state: int | None, seed: int) -> bytes:
    """Hash an initial state of which nothing was observed: its index, or else the seed."""
    what = ["init_state", init_state] if init_state is not None else ["seed", seed]
    return hashlib.sha256(_STATE + json.dumps(what, separators=(",", ":")).encode()).digest()
