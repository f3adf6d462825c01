"""Pictures that envs draw: checked, and written as PNG or video."""

import struct
import tempfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from envhub.errors import ContractError, RuntimeUnavailable
from envhub.wire.values import Array

FPS = 20.0
"""Frames per second of a benchmark that says nothing about time."""
_LEAST_FPS, _MOST_FPS = 0.5, 240.0
_LONGEST_SIDE = 16384
"""Of a frame; h264 and VP9 encode no larger ones."""


def frame_problem(frame: object, render_mode: str | None) -> str | None:
    """Return why what `render()` returned is not a picture; None if it is one."""
    if frame is None and render_mode is None:
        return "The env has no render_mode: make it with render_mode='rgb_array'."
    if not isinstance(frame, np.ndarray):
        mode = f"with render_mode {render_mode!r}"
        return f"render() returned a {type(frame).__name__}, not a picture, {mode}."
    if frame.ndim != 3 or frame.shape[2] not in (1, 3) or frame.dtype != np.uint8:
        shape = "x".join(map(str, frame.shape))
        return f"render() returned {shape} {frame.dtype}, not height x width x 3 uint8."
    height, width = frame.shape[:2]
    if not (1 <= height <= _LONGEST_SIDE and 1 <= width <= _LONGEST_SIDE):
        return (
            f"render() returned a frame of {height} x {width}; each side must be 1 to "
            f"{_LONGEST_SIDE} pixels."
        )
    return None


def write_png(path: Path, frame: Array) -> None:
    """Write an HWC uint8 array with 1 or 3 channels, as the PNG specification (ISO 15948) says."""
    path.write_bytes(png(frame))


def png(frame: Array) -> bytes:
    """Return an HWC uint8 array with 1 or 3 channels as PNG."""
    height, width, channels = frame.shape
    color_type = {1: 0, 3: 2}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    rows = np.ascontiguousarray(frame).reshape(height, width * channels)
    filtered = np.insert(rows, 0, 0, axis=1)  # each row starts with its filter type: none
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


class Video:
    """A video in an MP4 file: h264, which every browser plays, or VP9 where PyAV has no x264.

    To be used in a `with` statement, which removes what is left of it.
    """

    def __init__(self, control_hz: float = 0.0, every: int = 1) -> None:
        """Begin a video; a frame is shown for `every` steps of the benchmark's time.

        Args:
            control_hz: Steps per second; 0: unknown.
            every: Steps from one frame to the next.

        Raises:
            RuntimeUnavailable: PyAV is not installed, or encodes neither.
        """
        self._av, self.codec = _encoder()
        rate = min(max((control_hz or FPS) / every, _LEAST_FPS), _MOST_FPS)
        self._rate = Fraction(rate).limit_denominator(1000)
        # A file with a name: to move the index to its front, ffmpeg opens it again.
        self._kept = tempfile.NamedTemporaryFile(suffix=".mp4", prefix="envhub-")  # noqa: SIM115
        options = {"movflags": "faststart"}
        self._file = self._av.open(self._kept.name, "w", format="mp4", options=options)
        self._stream: Any = None
        self._shape: tuple[int, ...] = ()
        self._last: Array | None = None
        self._count = 0

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept.closed:
            if self._stream is not None:  # a file without frames was never begun
                self._file.close()
            self._kept.close()

    def add(self, frame: Array) -> None:
        """Add a frame, which `frame_problem` has no objection to."""
        if self._stream is None:
            self._begin(frame)
        if frame.shape != self._shape:
            raise ContractError(
                f"render() returned frames of shape {self._shape} and of shape {frame.shape}; "
                "those of a video have one."
            )
        self._last = frame
        self._encode(self._count)
        self._count += 1

    def finish(self) -> bytes:
        """Return the file. The last frame is shown for a second."""
        if self._last is not None:
            for place in range(self._count, self._count + max(1, round(self._rate))):
                self._encode(place)
            for packet in self._stream.encode():
                self._file.mux(packet)
            self._file.close()
        with self._kept as file:
            return bytes(file.read())

    def _begin(self, frame: Array) -> None:
        self._shape = frame.shape
        height, width = (size + size % 2 for size in frame.shape[:2])  # h264 wants even sizes
        stream = self._file.add_stream(self.codec, rate=self._rate, options=_OPTIONS[self.codec])
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1  # episodes are drawn in parallel
        stream.codec_context.time_base = 1 / self._rate
        self._stream = stream

    def _encode(self, place: int) -> None:
        assert self._last is not None
        height, width = self._shape[:2]
        padded = np.pad(self._last, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
        colors = np.ascontiguousarray(np.broadcast_to(padded, (*padded.shape[:2], 3)))
        frame = self._av.VideoFrame.from_ndarray(colors, format="rgb24")
        frame.pts, frame.time_base = place, 1 / self._rate
        for packet in self._stream.encode(frame):
            self._file.mux(packet)


_OPTIONS = {
    # Measured: 3 ms and 0.65 KB a frame of 480x480.
    "libx264": {"preset": "veryfast", "crf": "26"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "crf": "32", "b:v": "0"},
}


def check_encoder() -> str:
    """Return the encoder of videos: `libx264`, or `libvpx-vp9`.

    Raises:
        RuntimeUnavailable: There is none.
    """
    return _encoder()[1]


def _encoder() -> tuple[Any, str]:
    try:
        import av
    except ImportError as exc:
        raise RuntimeUnavailable("Videos need PyAV:", "pip install av") from exc
    for codec in _OPTIONS:
        if codec in av.codecs_available:
            return av, codec
    raise RuntimeUnavailable(
        "This PyAV encodes neither h264 nor VP9.", "Install the wheel: pip install av"
    )
