"""Read LIBERO's stored initial states without unpickling them, and so without torch.

A file is a zip archive that `torch.save` wrote, with one numpy array in a pickle. A pickle is a
program; this one is never run. Its instructions are compared with those of an array of 64-bit
numbers, and the two that hold the shape and the numbers are read.
"""

import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import ContractError

Array = np.ndarray[Any, Any]

_GLOBALS = ("numpy.core.multiarray _reconstruct", "numpy ndarray", "_codecs encode", "numpy dtype")
_TEXTS = ("b", "latin1", "f8", "<")
"""All texts of the pickle before the numbers, which are a text too, in Latin-1."""
_FLAGS = ("NEWFALSE", "NEWTRUE", "NEWFALSE")
"""All truth values of the pickle; the last one says that rows are stored one after the other."""
_WHOLE = (0, 1, None, None, 3, -1, -1, 0)
"""All whole numbers of the pickle; None: the shape."""


def read_init_states(path: Path) -> Array:
    """Return the initial states of a task, one per row.

    Raises:
        ContractError: The file does not exist, or holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _decode(archive.read("archive/data.pkl"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as exc:
        raise ContractError(f"{path} does not hold LIBERO's initial states: {exc}.") from exc


def _decode(pickled: bytes) -> Array:
    instructions: list[tuple[str, Any]] = [
        (code.name, value) for code, value, _ in pickletools.genops(pickled)
    ]
    named = tuple(value for name, value in instructions if name == "GLOBAL")
    texts = [value for name, value in instructions if name == "BINUNICODE"]
    whole = [value for name, value in instructions if name.startswith("BININT")]
    flags = tuple(name for name, _ in instructions if name in _FLAGS)
    if named != _GLOBALS or tuple(texts[:-1]) != _TEXTS or len(whole) != len(_WHOLE):
        raise ValueError("it is not a stored array of 64-bit numbers")
    same = all(known in (None, value) for known, value in zip(_WHOLE, whole, strict=True))
    if flags != _FLAGS or not same:
        raise ValueError("the array is stored in another way")
    rows, columns = whole[2:4]
    numbers = np.frombuffer(texts[-1].encode("latin1"), "<f8")
    return numbers.reshape(rows, columns)
