"""Read stored initial states without unpickling them, and so without torch.

A file is a zip archive with one numpy array in a pickle, as `torch.save` writes it (LIBERO's) or as
pickle's protocol 4 does (LIBERO-PRO's). A pickle is a program; this one is never run. Its
instructions must be those of an array of 64-bit numbers, one by one, and three values are read: the
numbers of rows and columns, and the numbers.
"""

import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import ContractError

Array = np.ndarray[Any, Any]
_Instruction = tuple[str, Any]

_MEMBER = "archive/data.pkl"
_MAX_BYTES = 2**26
"""Of the pickle; the largest that is known has 80 KB."""
_IGNORED = ("PROTO", "FRAME", "MEMOIZE", "BINPUT")
"""Instructions that neither compute nor import."""
_NAMES = {"SHORT_BINUNICODE": "BINUNICODE", "SHORT_BINBYTES": "BINBYTES"}
_READ = object()
"""Stands for a value that is read."""


def _whole(*values: Any) -> list[_Instruction]:
    return [("BININT", value) for value in values]


def _text(value: Any) -> _Instruction:
    return ("BINUNICODE", value)


def _plain(*names: str) -> list[_Instruction]:
    return [(name, None) for name in names]


_SHAPE = [*_plain("MARK"), *_whole(1, _READ, _READ), *_plain("TUPLE2")]
_LAYOUT = [
    *_plain("NEWFALSE", "NEWTRUE", "TUPLE3", "REDUCE", "MARK"),
    *[*_whole(3), _text("<"), *_plain("NONE", "NONE", "NONE"), *_whole(-1, -1, 0)],
    *_plain("TUPLE", "BUILD", "NEWFALSE"),
]
"""Little-endian, and rows one after the other."""
_PROTOCOL_2 = [
    ("GLOBAL", "numpy.core.multiarray _reconstruct"),
    *[("GLOBAL", "numpy ndarray"), *_whole(0), *_plain("TUPLE1"), ("GLOBAL", "_codecs encode")],
    *[_text("b"), _text("latin1"), *_plain("TUPLE2", "REDUCE", "TUPLE3", "REDUCE"), *_SHAPE],
    *[("GLOBAL", "numpy dtype"), _text("f8"), *_LAYOUT],
    *[("BINGET", 3), _text(_READ), ("BINGET", 5), *_plain("TUPLE2", "REDUCE")],
    *_plain("TUPLE", "BUILD", "STOP"),
]
"""The numbers are a text, of which Latin-1 makes bytes."""
_PROTOCOL_4 = [
    *[_text("numpy.core.multiarray"), _text("_reconstruct"), *_plain("STACK_GLOBAL")],
    *[_text("numpy"), _text("ndarray"), *_plain("STACK_GLOBAL"), *_whole(0), *_plain("TUPLE1")],
    *[("BINBYTES", b"b"), *_plain("TUPLE3", "REDUCE"), *_SHAPE],
    *[("BINGET", 3), _text("dtype"), *_plain("STACK_GLOBAL"), _text("f8"), *_LAYOUT],
    *[("BINBYTES", _READ), *_plain("TUPLE", "BUILD", "STOP")],
]
_KNOWN = {2: _PROTOCOL_2, 4: _PROTOCOL_4}


def read_init_states(path: Path) -> Array:
    """Return the initial states of a task, one per row.

    Raises:
        ContractError: The file does not exist, or holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_MEMBER).file_size > _MAX_BYTES:
                raise ValueError(f"{_MEMBER} has more than {_MAX_BYTES:,} bytes")
            return _decode(archive.read(_MEMBER))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as exc:
        raise ContractError(f"{path} does not hold LIBERO's initial states: {exc}.") from exc


def _decode(pickled: bytes) -> Array:
    found: list[_Instruction] = [
        (code.name, value) for code, value, _ in pickletools.genops(pickled)
    ]
    known = _KNOWN.get(found[0][1], [])
    kept = [_alike(*each) for each in found if each[0] not in _IGNORED]
    same = len(kept) == len(known) and all(
        one[0] == due[0] and (due[1] is _READ or one[1] == due[1])
        for one, due in zip(kept, known, strict=True)
    )
    if not same:
        raise ValueError("it is not a stored array of 64-bit numbers")
    rows, columns, data = (one[1] for one, due in zip(kept, known, strict=True) if due[1] is _READ)
    raw = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(raw, "<f8").reshape(rows, columns)


def _alike(name: str, value: Any) -> _Instruction:
    """Return an instruction by the name that all its lengths have."""
    return ("BININT" if name.startswith("BININT") else _NAMES.get(name, name)), value
