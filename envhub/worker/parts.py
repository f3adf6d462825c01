"""Counting what a msgpack message consists of before it is decoded.

Each part becomes an object of up to 80 bytes, so 64 MiB of empty maps would take 5 GB.
"""

from envhub.worker.channel import BrokenChannel

_MAX_PARTS = 2**20
_BYTES, _ITEMS, _EXT = range(3)
_NESTED = frozenset({b"\1", b"\2", b"\3"})
"""The extensions of `envhub.worker.values` that hold a message themselves."""

# What follows a tag (msgpack's specification): either so many bytes, items or bytes of extension,
# or a length in so many bytes, which counts what its factor says.
_FIXED = {0x80 + n: (_ITEMS, 2 * n) for n in range(16)}
_FIXED |= {0x90 + n: (_ITEMS, n) for n in range(16)}
_FIXED |= {0xA0 + n: (_BYTES, n) for n in range(32)}
_FIXED |= {0xCA: (_BYTES, 4), 0xCB: (_BYTES, 8)}
_FIXED |= {first + n: (_BYTES, 2**n) for first in (0xCC, 0xD0) for n in range(4)}
_FIXED |= {0xD4 + n: (_EXT, 2**n) for n in range(5)}
_LENGTH = {first + n: (2**n, _BYTES, 1) for first in (0xC4, 0xD9) for n in range(3)}
_LENGTH |= {0xC7 + n: (2**n, _EXT, 1) for n in range(3)}
_LENGTH |= {0xDC: (2, _ITEMS, 1), 0xDD: (4, _ITEMS, 1), 0xDE: (2, _ITEMS, 2), 0xDF: (4, _ITEMS, 2)}


def check_parts(payload: bytes) -> None:
    """Walk over a message. What is malformed is left to the decoder, which stops where it is.

    Raises:
        BrokenChannel: It has too many parts.
    """
    position, left = 0, 1
    for _ in range(_MAX_PARTS):
        if not left or position >= len(payload):
            return
        tag = payload[position]
        position += 1
        left -= 1
        if tag in _LENGTH:
            width, kind, factor = _LENGTH[tag]
            size = factor * int.from_bytes(payload[position : position + width], "big")
            position += width
        else:
            kind, size = _FIXED.get(tag, (_BYTES, 0))
        if kind == _ITEMS:
            left += size
        elif kind == _EXT and payload[position : position + 1] in _NESTED:
            left += 1
            position += 1
        else:
            position += size + (kind == _EXT)
    raise BrokenChannel(f"it sent an answer of more than {_MAX_PARTS} parts")
