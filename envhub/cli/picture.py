"""Writing a frame as PNG, which needs no more than zlib."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def write_png(path: Path, frame: np.ndarray[Any, Any]) -> None:
    """Write an HWC uint8 array with 1 or 3 channels, after the PNG specification (ISO 15948)."""
    height, width, channels = frame.shape
    color_type = {1: 0, 3: 2}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    rows = np.ascontiguousarray(frame).reshape(height, width * channels)
    filtered = np.insert(rows, 0, 0, axis=1)  # every row begins with its filter: none
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
