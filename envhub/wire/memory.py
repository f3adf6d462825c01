"""The memory that host and worker share: observations and actions as numpy arrays.

Every array has a row for each env. The host makes the memory, seals its size (a worker that cut it
short would kill the host with SIGBUS) and sends its descriptor; both sides compute the same layout
from the same spaces.
"""

import fcntl
import mmap
import os
import struct

import numpy as np

from envhub.wire.spaces import AnySpace, Leaf, leaves
from envhub.wire.values import Array

_ALIGN = 64

# From linux/fcntl.h; Python names only some of them.
_F_ADD_SEALS = 1033

_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1, 2, 4

CHUNK = 64
"""Actions a row has room for; a longer chunk is sent in parts."""

_PULSE = Leaf("", np.dtype(np.int64), ())

_OUTCOME = Leaf("", np.dtype(np.uint8), (32,))

OUTCOME = struct.Struct("=qd??B")
"""What came of a tick: its number, the reward, whether it terminated or truncated, and success."""

SUCCESSES = (False, True, None)
"""What the number of a success means; None where the env did not say."""

_FIELDS = np.dtype(
    {
        "names": ["tick", "reward", "terminated", "truncated", "success"],
        "formats": ["=i8", "=f8", "u1", "u1", "u1"],
        "offsets": [0, 8, 16, 17, 18],
        "itemsize": _OUTCOME.nbytes,
    }
)


class Buffers:
    """Views of a shared memory, laid out from two spaces.

    Beside observations and actions there is a pulse for each row. A worker that takes many steps at
    one request sets it to twice the number of steps taken, plus one while it waits for a policy
    beside it: so the host can tell a long episode from a hanging step, and whose step it is. And
    there is the outcome of a tick for each row, which the worker packs and the host copies out.
    """

    def __init__(self, fd: int, rows: int, observation: AnySpace, action: AnySpace) -> None:
        self.rows = rows
        size = needed_bytes(rows, observation, action)
        memory = np.frombuffer(mmap.mmap(fd, size), np.uint8)
        self.pulse, offset = _view(memory, 0, _PULSE, (rows,))
        self._outcomes, offset = _view(memory, offset, _OUTCOME, (rows,))
        self.observations: dict[str, Array] = {}
        for leaf in array_leaves(observation):
            self.observations[leaf.path], offset = _view(memory, offset, leaf, (rows,))
        self.actions: Array | None = None
        leaf_of_action = shared_action(action)
        if leaf_of_action is not None:
            self.actions, offset = _view(memory, offset, leaf_of_action, (rows, CHUNK))

    def outcomes(self) -> Array:
        """What came of the last tick of each row, copied: the worker can change what is there."""
        return self._outcomes.copy().view(_FIELDS)[:, 0]

    def outcome(self, row: int) -> tuple[int, float, bool, bool, int]:
        """What came of the last tick of one row, as `OUTCOME`; copied too."""
        return OUTCOME.unpack_from(self._outcomes[row].tobytes())

    def outcome_of(self, row: int) -> memoryview:
        """Where `OUTCOME` is packed to."""
        return memoryview(self._outcomes[row])


def make_memory(size: int) -> int:
    """A descriptor of shared memory whose size nobody can change."""
    fd = os.memfd_create("envhub", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW)
    return fd


def needed_bytes(rows: int, observation: AnySpace, action: AnySpace) -> int:
    """The size of a memory for so many rows."""
    each = (_PULSE, _OUTCOME, *array_leaves(observation))
    total = sum(_padded(leaf.nbytes * rows) for leaf in each)
    leaf = shared_action(action)
    if leaf is not None:
        total += _padded(leaf.nbytes * rows * CHUNK)
    return total


def array_leaves(space: AnySpace) -> tuple[Leaf, ...]:
    """The leaves that live in shared memory: all but text."""
    return tuple(leaf for leaf in leaves(space) if leaf.dtype is not None)


def shared_action(space: AnySpace) -> Leaf | None:
    """The action's leaf if it is a single array; other actions travel in messages."""
    found = leaves(space)
    return found[0] if len(found) == 1 and not found[0].path and found[0].dtype else None


def _view(memory: Array, offset: int, leaf: Leaf, lead: tuple[int, ...]) -> tuple[Array, int]:
    count = int(np.prod(lead)) * leaf.nbytes
    view = memory[offset : offset + count].view(np.dtype(leaf.dtype)).reshape(*lead, *leaf.shape)
    return view, offset + _padded(count)


def _padded(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN
