"""The stored actions and steps of episodes. Files of others: checked before they are believed."""

import io
import os
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from envhub.errors import RunDirectoryError
from envhub.files import open_regular
from envhub.wire.values import Array

STEP = np.dtype([("reward", "<f8"), ("success", "i1"), ("terminated", "?"), ("truncated", "?")])
"""A step of an episode; its success is -1 if the env reported none."""

_MOST_BYTES = 2**27
"""Of an episode's file; 100,000 steps of 64 numbers and their rewards are 52 MB."""


def arrays_path(directory: Path, number: int) -> Path:
    """Return the file of an episode's actions and steps."""
    return directory / "actions" / f"{number}.npy"


def pack_arrays(actions: Array, steps: Array | None) -> bytes:
    """Return the content of an episode's file: its actions, then its steps."""
    stored = [actions] if steps is None else [actions, steps]
    return b"".join(_header(array.dtype, array.shape) + array.tobytes() for array in stored)


@lru_cache(maxsize=1024)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What `numpy.save` writes before the content; making it takes longer than writing both."""
    buffer = io.BytesIO()
    described = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Arrays:
    """What is stored of an episode."""

    actions: Array | None
    """A row per step; None if they are not there."""
    steps: Array | None
    """Reward and flags of every step; None if they are not there."""


def read_arrays(directory: Path, number: int) -> Arrays:
    """Return what is stored of an episode; its file is opened once.

    Raises:
        RunDirectoryError: The file is damaged.
    """
    path = arrays_path(directory, number)
    return _check(_read(path), path)


def unpack_arrays(content: bytes, place: Path) -> Arrays:
    """Return the actions and steps of an episode's file that came as bytes.

    Args:
        content: The content of the file.
        place: Where it is to be, for errors.

    Raises:
        RunDirectoryError: The content is damaged.
    """
    try:
        return _check(_parse_all(io.BytesIO(content), len(content)), place)
    except _DAMAGED as exc:
        raise _damaged(place, exc) from exc


def _check(found: list[Array], path: Path) -> Arrays:
    return Arrays(
        _check_actions(found[0], path) if found else None,
        _check_steps(found[1], path) if len(found) > 1 else None,
    )


def _check_actions(actions: Array, path: Path) -> Array:
    if actions.dtype.kind not in "biuf" or actions.ndim == 0:
        raise RunDirectoryError(
            f"{path} holds {actions.dtype} of shape {actions.shape}, not actions."
        )
    return actions


def _check_steps(steps: Array, path: Path) -> Array:
    if steps.dtype != STEP or steps.ndim != 1:
        raise RunDirectoryError(f"{path} holds {steps.dtype} of shape {steps.shape}, not steps.")
    return steps


def _read(path: Path) -> list[Array]:
    """Return the arrays of a file: the actions, then the steps."""
    try:
        with open_regular(path, inside=path.parent) as file:
            return _parse_all(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise RunDirectoryError(f"{path} cannot be read: {exc.strerror}.") from exc
    except _DAMAGED as exc:
        raise _damaged(path, exc) from exc


def _damaged(path: Path, exc: BaseException) -> RunDirectoryError:
    problem = str(exc).splitlines()[0][:200] if str(exc) else type(exc).__name__
    return RunDirectoryError(f"{path} is damaged: {problem}.")


def _parse_all(file: BinaryIO, size: int) -> list[Array]:
    """Return the actions, and the steps if they are there."""
    if size > _MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes, more than an episode can")
    found = [_parse(file, size)]
    if file.tell() < size:
        found.append(_parse(file, size))
    if file.tell() < size:
        raise ValueError("it holds more than actions and steps")
    return found


_DAMAGED = (
    ValueError, EOFError, OverflowError, TypeError, SyntaxError, MemoryError, RecursionError,
    tokenize.TokenError,
)  # fmt: skip
"""What numpy raises for a header that is not one: it reads Python's literals there."""


def _parse(file: BinaryIO, size: int) -> Array:
    """Read an array that ends within the file: a header may claim terabytes."""
    version = npy.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"it is of version {version} of the format")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    short = min(shape, default=0) < 0 or count * dtype.itemsize > size - file.tell()
    if dtype.hasobject or fortran or short:
        raise ValueError(f"its header says {dtype} of shape {shape}, and its content does not")
    return np.frombuffer(file.read(count * dtype.itemsize), dtype).reshape(shape)
