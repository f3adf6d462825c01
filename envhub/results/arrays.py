"""The stored actions and steps of episodes. Files of others: checked before they are believed."""

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from envhub.errors import RunDirectoryError
from envhub.results.journal import open_regular
from envhub.wire.values import Array

STEP = np.dtype([("reward", "<f8"), ("success", "i1"), ("terminated", "?"), ("truncated", "?")])
"""A step in `traces/`; its success is -1 if the env reported none."""


def read_actions(directory: Path, number: int) -> Array | None:
    """Return the actions of an episode, a row per step; None if they are not there.

    Raises:
        RunDirectoryError: The file is damaged.
    """
    path = directory / "actions" / f"{number}.npy"
    found = _read(path)
    if found is not None and (found.dtype.kind not in "biuf" or found.ndim == 0):
        raise RunDirectoryError(f"{path} holds {found.dtype} of shape {found.shape}, not actions.")
    return found


def read_steps(directory: Path, number: int) -> Array | None:
    """Return reward and flags of every step of an episode; None if they are not there.

    Raises:
        RunDirectoryError: The file is damaged.
    """
    path = directory / "traces" / f"{number}.npy"
    found = _read(path)
    if found is not None and (found.dtype != STEP or found.ndim != 1):
        raise RunDirectoryError(f"{path} holds {found.dtype} of shape {found.shape}, not steps.")
    return found


def _read(path: Path) -> Array | None:
    try:
        with open_regular(path) as file:
            return _parse(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise RunDirectoryError(f"{path} cannot be read: {exc.strerror}.") from exc
    except (ValueError, EOFError, OverflowError) as exc:
        raise RunDirectoryError(f"{path} is damaged: {exc}.") from exc


def _parse(file: BinaryIO, size: int) -> Array:
    """Read an array whose header and content fill the file: a header may claim terabytes."""
    version = npy.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"it is of version {version} of the format")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if dtype.hasobject or fortran or count * dtype.itemsize != size - file.tell():
        raise ValueError(f"its header says {dtype} of shape {shape}, and its content does not")
    return np.frombuffer(file.read(), dtype).reshape(shape)
