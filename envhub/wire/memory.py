"""The memory that host and worker share: observations and actions as numpy arrays.

Every array has a row for each env. The host makes the memory, seals its size (a worker that shrank
it would kill the host with SIGBUS) and sends its descriptor; both sides compute the same layout
from the same spaces.
"""

import fcntl
import mmap
import os
import struct
from typing import Any

import numpy as np

from envhub.wire.spaces import AnySpace, Leaf, leaves
from envhub.wire.values import Array

_ALIGN = 64

# From linux/fcntl.h; Python names only some of them.
_F_ADD_SEALS = 1033

_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1, 2, 4

CHUNK = 64
"""Actions per row; a longer chunk is sent in parts."""

_PULSE = Leaf("", np.dtype(np.int64), ())

_STEP_RESULT = Leaf("", np.dtype(np.uint8), (32,))

STEP_RESULT = struct.Struct("=qd??B")
"""The result of a quick step: request number, reward, terminated, truncated, success."""

SUCCESSES = (False, True, None)
"""What the success byte means, by its value; None: the env did not report success."""

_FIELDS = np.dtype(
    {
        "names": ["number", "reward", "terminated", "truncated", "success"],
        "formats": ["=i8", "=f8", "u1", "u1", "u1"],
        "offsets": [0, 8, 16, 17, 18],
        "itemsize": _STEP_RESULT.nbytes,
    }
)


class Buffers:
    """Views of a shared memory, laid out from two spaces.

    Besides observations and actions, each row has a pulse and the result of its last quick step. A
    worker that takes many steps for one request sets the pulse to twice the number of steps taken,
    plus one while a policy in the worker acts: so the host can tell a long episode from a hanging
    step, and whose code is running. The worker packs the result, and the host copies it out.
    """

    def __init__(self, fd: int, rows: int, observation: AnySpace, action: AnySpace) -> None:
        self.rows = rows
        size = needed_bytes(rows, observation, action)
        memory = np.frombuffer(mmap.mmap(fd, size), np.uint8)
        self.pulse, offset = _view(memory, 0, _PULSE, (rows,))
        self._step_results, offset = _view(memory, offset, _STEP_RESULT, (rows,))
        self.observations: dict[str, Array] = {}
        for leaf in array_leaves(observation):
            self.observations[leaf.path], offset = _view(memory, offset, leaf, (rows,))
        self.actions: Array | None = None
        action_leaf = shared_action(action)
        if action_leaf is not None:
            self.actions, offset = _view(memory, offset, action_leaf, (rows, CHUNK))

    def value(self, path: str) -> Any:
        """Return the first row's value at a leaf, which changes with the next step.

        A bool array is copied: other bytes than 0 and 1 are not valid in numpy's.
        """
        rows = self.observations[path]
        return (rows[:1].view(np.uint8) != 0)[0] if rows.dtype == np.bool_ else rows[0]

    def step_results(self) -> Array:
        """Return the result of each row's last quick step.

        It is a copy, because the worker can change the memory at any time.
        """
        return self._step_results.copy().view(_FIELDS)[:, 0]

    def step_result(self, row: int) -> tuple[int, float, bool, bool, int]:
        """Return the result of one row's last quick step, as `STEP_RESULT`; a copy too."""
        return STEP_RESULT.unpack_from(self._step_results[row].tobytes())

    def step_result_memory(self, row: int) -> memoryview:
        """Return the memory of one row that the worker packs `STEP_RESULT` into."""
        return memoryview(self._step_results[row])


def make_memory(size: int) -> int:
    """Make shared memory whose size nobody can change, and return its descriptor."""
    fd = os.memfd_create("envhub", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW)
    return fd


def needed_bytes(rows: int, observation: AnySpace, action: AnySpace) -> int:
    """Return the size of the shared memory for a number of rows."""
    per_row = (_PULSE, _STEP_RESULT, *array_leaves(observation))
    total = sum(_padded(leaf.nbytes * rows) for leaf in per_row)
    leaf = shared_action(action)
    if leaf is not None:
        total += _padded(leaf.nbytes * rows * CHUNK)
    return total


def array_leaves(space: AnySpace) -> tuple[Leaf, ...]:
    """Return the leaves that live in shared memory: all but text."""
    return tuple(leaf for leaf in leaves(space) if leaf.dtype is not None)


def shared_action(space: AnySpace) -> Leaf | None:
    """Return the action's leaf if the action is one array; other actions travel in messages."""
    all_leaves = leaves(space)
    leaf = all_leaves[0] if len(all_leaves) == 1 else None
    return leaf if leaf is not None and not leaf.path and leaf.dtype else None


def _view(memory: Array, offset: int, leaf: Leaf, lead: tuple[int, ...]) -> tuple[Array, int]:
    count = int(np.prod(lead)) * leaf.nbytes
    view = memory[offset : offset + count].view(np.dtype(leaf.dtype)).reshape(*lead, *leaf.shape)
    return view, offset + _padded(count)


def _padded(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN
