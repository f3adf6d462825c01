"""Messages of policy servers: msgpack with arrays, as openpi's client writes them byte by byte.

Every family of servers marks its arrays differently. `pack` takes the marks, `unpack` knows them
all. What is unpacked comes from a stranger: its parts are counted before they are made, and an
array's size must be that of its bytes.
"""

import io
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np

from envhub.wire.frames import BrokenChannel
from envhub.wire.values import Array, check_parts

MAX_MESSAGE = 64 * 2**20
"""Bytes of a message: vllm-omni's limit, the largest of all."""
MAX_PARTS = 100_000
"""Keys, values and items of a message; an array is five."""
_SMALL = 1024
"""Numbers of an array that is copied: a view of so few costs more."""
_MAX_DIMS = 32
_MAX_DEPTH = 32
_NUMBERS = re.compile(r"[<>|=]?[biuf][1248]")
"""The dtypes that are read: no objects, texts, structures, dates or complex numbers."""
_MAX_PIXELS = 2**24


class InvalidMessage(ValueError):
    """A message that no server of the dialect sends; the text says why."""


Marks = Callable[[Any], Any]
"""Turns what msgpack does not know into what it does: numpy's arrays and numbers."""


def mark_openpi(value: Any) -> Any:
    """Write arrays as `openpi_client.msgpack_numpy` 0.1.2 does: with keys that are bytes."""
    if isinstance(value, np.ndarray):
        return {
            b"__ndarray__": True,
            b"data": _bytes(value),
            b"dtype": _checked(value.dtype).str,
            b"shape": value.shape,
        }
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": _checked(value.dtype).str}
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def mark_vla_eval(value: Any) -> Any:
    """Write arrays as vla-eval 0.8 does with `image_format` raw: with keys that are text."""
    if isinstance(value, np.ndarray):
        return {
            "__ndarray__": True,
            "data": _bytes(value),
            "dtype": _checked(value.dtype).str,
            "shape": list(value.shape),
        }
    return _number(value)


def mark_gr00t(value: Any) -> Any:
    """Write arrays as the package msgpack-numpy does, which GR00T N1.7 uses."""
    if isinstance(value, np.ndarray):
        return {
            b"nd": True,
            b"type": _checked(value.dtype).str,
            b"kind": b"",
            b"shape": value.shape,
            b"data": _bytes(value),
        }
    return _number(value)


def pack(value: Any, marks: Marks = mark_openpi) -> bytes:
    """Write a message.

    Args:
        value: Plain data with arrays.
        marks: How the receiver's arrays are written.
    """
    return _encoder(marks).encode(value)


def pack_into(buffer: bytearray, value: Any, marks: Marks = mark_openpi) -> bytearray:
    """Write a message into memory that was used before: new memory costs more than the copy."""
    _encoder(marks).encode_into(value, buffer)
    return buffer


@cache
def _encoder(marks: Marks) -> msgspec.msgpack.Encoder:
    return msgspec.msgpack.Encoder(enc_hook=lambda found: _plain(found, marks))


def _bytes(array: Array) -> bytes | memoryview:
    """Return an array's bytes, without a copy if it is large and in one piece."""
    if array.size < _SMALL or not array.flags.c_contiguous:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data


def unpack(message: bytes, most: int = MAX_PARTS) -> Any:
    """Read a message, whichever way its arrays are written.

    Args:
        message: The message.
        most: The parts that it may have.

    Raises:
        InvalidMessage: It is not one, or holds something that is never needed.
    """
    try:
        check_parts(message, most)
        return _restore(_decoder.decode(message), 0)
    except BrokenChannel as exc:
        raise InvalidMessage("it has too many parts") from exc
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError) as exc:
        if isinstance(exc, InvalidMessage):
            raise
        raise InvalidMessage(f"it cannot be read: {exc}") from exc


def _plain(value: Any, marks: Marks) -> Any:
    """Reduce a subclass of a plain type to that type, as msgpack does; others are marked."""
    kinds: tuple[type[Any], ...] = (float, str, bytes, int)
    for plain in kinds:
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, Mapping):
        return dict(value)
    return marks(value)


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        _checked(value.dtype)
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _checked(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "VOc":
        raise TypeError(f"an array of dtype {dtype} cannot be sent")
    return dtype


def _refuse_extension(code: int, _: memoryview) -> Any:
    raise InvalidMessage(f"it has the extension {code}, which no policy server needs")


_decoder = msgspec.msgpack.Decoder(ext_hook=_refuse_extension)


def _restore(value: Any, depth: int) -> Any:
    """Turn marked maps into arrays, from the leaves up."""
    if depth > _MAX_DEPTH:
        raise InvalidMessage(f"it is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, list):
        return [_restore(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    marks = {_text(key): item for key, item in value.items()}
    if "__ndarray__" in marks:
        return _array(marks["dtype"], marks["shape"], marks["data"])
    if "__npgeneric__" in marks:
        return _dtype(marks["dtype"]).type(marks["data"])
    if marks.get("nd") is True and "type" in marks:
        return _array(_text(marks["type"]), marks["shape"], marks["data"])
    if marks.get("nd") is False and "type" in marks:
        return _array(_text(marks["type"]), [], marks["data"])[()]
    if "__image__" in marks:
        return _image(marks)
    if "__ndarray_class__" in marks:
        return _npy(marks["as_npy"])
    return {_text(key): _restore(item, depth + 1) for key, item in value.items()}


def _text(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode()
    if not isinstance(key, str):
        raise InvalidMessage(f"it has the key {key!r:.40}, which is not text")
    return key


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or not _NUMBERS.fullmatch(name):
        raise InvalidMessage(f"it has an array of dtype {name!r:.40}")
    return np.dtype(name)


def _array(name: Any, shape: Any, data: Any) -> Array:
    dtype = _dtype(name)
    sizes = list(shape)
    whole = all(type(size) is int and size >= 0 for size in sizes)
    if len(sizes) > _MAX_DIMS or not whole or not isinstance(data, bytes):
        raise InvalidMessage(f"it has an array of shape {shape!r:.80}")
    if math.prod(sizes) * dtype.itemsize != len(data):
        problem = f"it has {len(data)} bytes for an array of dtype {name} and shape {sizes}"
        raise InvalidMessage(problem)
    if dtype.kind == "b":  # other bytes than 0 and 1 are not valid in numpy's bool arrays
        return np.not_equal(np.frombuffer(data, np.uint8), 0).reshape(sizes)
    return np.frombuffer(data, dtype).reshape(sizes)


def _npy(data: Any) -> Array:
    """Read an array as `numpy.save` writes it, whose header says no more than its bytes hold."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise InvalidMessage(f"it has an array of numpy's format {version}")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    array = _array(dtype.str, shape, stream.read())
    return array.ravel().reshape(shape, order="F") if fortran else array


def _image(marks: Mapping[str, Any]) -> Array:
    """Read a picture of vla-eval: raw, PNG or JPEG, of a bounded size."""
    if marks["format"] == "raw":
        return _array(marks["dtype"], marks["shape"], marks["data"])
    if marks["format"] not in ("png", "jpeg"):
        raise InvalidMessage(f"it has a picture of format {marks['format']!r:.40}")
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(io.BytesIO(marks["data"]), formats=("PNG", "JPEG"))
        if picture.width * picture.height > _MAX_PIXELS:
            raise InvalidMessage(f"it has a picture of {picture.width} x {picture.height} pixels")
        return np.asarray(picture)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as exc:
        raise InvalidMessage(f"it has a picture that cannot be read: {exc}") from exc
