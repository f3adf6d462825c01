"""Plain values and numpy arrays as msgpack, in both directions; no pickle.

Values that can be sent: None, bool, int, float, str, bytes, list, tuple, dict with text keys, numpy
arrays and scalars of the dtypes below. `portable` prepares a value for the encoder; `extension` is
the decoder's hook and refuses inconsistent data; `check_parts` limits the parts of a message.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from envhub.values import has_surrogate
from envhub.wire.frames import BrokenChannel

Array = np.ndarray[Any, Any]

DTYPES = frozenset({
    "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8",
})  # fmt: skip
"""The numpy dtypes that can be sent, as numpy writes them."""

_ARRAY, _SCALAR, _TUPLE, _WHOLE = 1, 2, 3, 4

_MAX_WHOLE = 128
"""Bytes of an integer. Seeds drawn by numpy have 16, msgpack's integers 8."""

_MAX_DIMS = 32

_MAX_DEPTH = 32

_PLAIN = frozenset({bool, float, bytes})

_MAX_PARTS = 2**20
"""The parts of one message."""

_BYTES, _ITEMS, _EXT = range(3)

_NESTED = frozenset({b"\1", b"\2", b"\3"})
"""The codes of the extensions whose data is msgpack too: arrays, scalars and tuples."""

# What follows a tag, by msgpack's specification. `_FIXED`: a fixed number of bytes, items or bytes
# of an extension. `_LENGTH`: a length of so many bytes, what it counts, a factor (2 for mappings).
_FIXED = {0x80 + n: (_ITEMS, 2 * n) for n in range(16)}
_FIXED |= {0x90 + n: (_ITEMS, n) for n in range(16)}
_FIXED |= {0xA0 + n: (_BYTES, n) for n in range(32)}
_FIXED |= {0xCA: (_BYTES, 4), 0xCB: (_BYTES, 8)}
_FIXED |= {first + n: (_BYTES, 2**n) for first in (0xCC, 0xD0) for n in range(4)}
_FIXED |= {0xD4 + n: (_EXT, 2**n) for n in range(5)}

_LENGTH = {first + n: (2**n, _BYTES, 1) for first in (0xC4, 0xD9) for n in range(3)}
_LENGTH |= {0xC7 + n: (2**n, _EXT, 1) for n in range(3)}
_LENGTH |= {0xDC: (2, _ITEMS, 1), 0xDD: (4, _ITEMS, 1), 0xDE: (2, _ITEMS, 2), 0xDF: (4, _ITEMS, 2)}

_Header = tuple[str, tuple[int, ...], bytes]

_header = msgspec.msgpack.Decoder(_Header)


class NotPortable(TypeError):
    """A value cannot be sent to another process; the message says where it is."""


def portable(value: Any, *, where: str = "", depth: int = 0) -> Any:
    """Convert a value to types that the encoder takes.

    Raises:
        NotPortable: A part of it cannot be sent.
    """
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return _array(value, where, _ARRAY)
    if isinstance(value, int | float | str | bytes | np.generic):
        return _single(value, where)
    if depth >= _MAX_DEPTH:
        raise NotPortable(f"{where or 'value'} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, tuple):
        items = [portable(v, where=f"{where}[{i}]", depth=depth + 1) for i, v in enumerate(value)]
        return msgspec.msgpack.Ext(_TUPLE, msgspec.msgpack.encode(items))
    if isinstance(value, list):
        return [portable(v, where=f"{where}[{i}]", depth=depth + 1) for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _key(k, where): portable(v, where=f"{where}/{k}" if where else k, depth=depth + 1)
            for k, v in value.items()
        }
    raise NotPortable(f"{where or 'value'} is a {type(value).__name__}")


def extension(code: int, data: memoryview) -> Any:
    """Decode a value that `portable` made an extension.

    Raises:
        ValueError: The data is inconsistent.
    """
    if code == _TUPLE:
        return tuple(_items.decode(data))
    if code == _WHOLE and len(data) <= _MAX_WHOLE:
        return int.from_bytes(data, "little", signed=True)
    if code not in (_ARRAY, _SCALAR):
        raise ValueError(f"unknown extension {code}")
    dtype, shape, raw = _header.decode(data)
    if dtype not in DTYPES or len(shape) > _MAX_DIMS or any(size < 0 for size in shape):
        raise ValueError(f"an array cannot have dtype {dtype!r} and shape {shape}")
    if math.prod(shape) * np.dtype(dtype).itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes for an array of dtype {dtype!r} and shape {shape}")
    array = np.frombuffer(raw, dtype).reshape(shape).copy()
    if array.dtype == np.bool_:  # other bytes than 0 and 1 are not valid in numpy's bool arrays
        array = np.asarray(array.view(np.uint8) != 0)  # asarray: 0-d arrays became scalars
    if code == _ARRAY:
        return array
    if shape:
        raise ValueError(f"a scalar cannot have the shape {shape}")
    return array[()]


_items = msgspec.msgpack.Decoder(list[Any], ext_hook=extension)


def check_parts(payload: bytes, most: int = _MAX_PARTS) -> None:
    """Count the parts of a message before it is decoded: each one becomes a Python object.

    Malformed messages are left to the decoder, which refuses them.

    Args:
        payload: The message.
        most: The parts that it may have.

    Raises:
        BrokenChannel: The message has too many parts.
    """
    position, left = 0, 1
    for _ in range(most):
        if not left or position >= len(payload):
            return
        tag = payload[position]
        position += 1
        left -= 1
        if tag in _LENGTH:
            width, unit, factor = _LENGTH[tag]
            size = factor * int.from_bytes(payload[position : position + width], "big")
            position += width
        else:
            unit, size = _FIXED.get(tag, (_BYTES, 0))
        if unit == _ITEMS:
            left += size
        elif unit == _EXT and payload[position : position + 1] in _NESTED:
            left += 1
            position += 1
        else:
            position += size + (unit == _EXT)
    raise BrokenChannel(f"it sent an answer of more than {most} parts")


def _array(value: np.ndarray[Any, Any], where: str, code: int) -> msgspec.msgpack.Ext:
    dtype = value.dtype.newbyteorder("<")
    if dtype.str not in DTYPES:
        raise NotPortable(f"{where or 'value'} is an array of dtype {value.dtype}")
    raw = np.ascontiguousarray(value, dtype).tobytes()
    header: _Header = (dtype.str, value.shape, raw)
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(header))


def _single(value: Any, where: str) -> Any:
    """Convert a number or text; the encoder takes no subclasses (numpy.float64, numpy.str_)."""
    match value:
        case str():
            return _text(value, where)
        case bytes():
            return bytes(value)
        case np.generic():
            return _array(np.asarray(value), where, _SCALAR)
        case int():
            return _whole(int(value), where)
        case _:
            return float(value)


def _text(value: str, where: str) -> str:
    text = str.__str__(value)
    if has_surrogate(text):
        raise NotPortable(f"{where or 'value'} is text that UTF-8 cannot encode")
    return text


def _whole(value: int, where: str) -> Any:
    if -(2**63) <= value < 2**64:
        return value
    size = value.bit_length() // 8 + 1
    if size > _MAX_WHOLE:
        raise NotPortable(f"{where or 'value'} is an integer of more than {_MAX_WHOLE} bytes")
    return msgspec.msgpack.Ext(_WHOLE, value.to_bytes(size, "little", signed=True))


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise NotPortable(f"{where or 'value'} has the key {key!r}, which is not text")
    return _text(key, where)
