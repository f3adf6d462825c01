"""Length-prefixed frames over a socketpair: blocking in the worker, never blocking in the host."""

import socket
import struct
from collections import deque

_LENGTH = struct.Struct("<I")
MAX_FRAME = 64 * 2**20
"""Bytes. A rendered 4K frame has 25 MB."""
_READ = 2**18


class BrokenChannel(Exception):
    """The other side sent what no frame can be."""


class Channel:
    """The worker's end. Blocks."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._frames = _Frames()
        self._fds: deque[int] = deque()

    def send(self, payload: bytes) -> None:
        """Send one frame."""
        self._socket.sendall(_LENGTH.pack(len(payload)) + payload)

    def receive(self) -> bytes:
        """The next frame.

        Raises:
            EOFError: The host has closed its end.
        """
        while True:
            payload = self._frames.take()
            if payload is not None:
                return payload
            data, fds, _, _ = socket.recv_fds(self._socket, _READ, 4)
            self._fds.extend(fds)
            if not data:
                raise EOFError
            self._frames.feed(data)

    def take_fd(self) -> int:
        """The oldest descriptor that came along with frames."""
        return self._fds.popleft()


class HostChannel:
    """The host's end. Sends what fits at once and keeps the rest; reads what is there."""

    def __init__(self) -> None:
        self._socket, self.worker_end = socket.socketpair()
        self._socket.setblocking(False)
        self._frames = _Frames()
        self._out = b""
        self._fds: tuple[int, ...] = ()

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits for room."""
        return bool(self._out)

    def send(self, payload: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one frame, now or as `flush` finds room."""
        frame = _LENGTH.pack(len(payload)) + payload
        if fds:
            self._fds = fds
        self._out = self._out + frame if self._out else frame
        self.flush()

    def flush(self) -> None:
        """Send as much as there is room for."""
        try:
            if self._fds:
                sent = socket.send_fds(self._socket, [self._out], self._fds)
                self._fds = ()
            else:
                sent = self._socket.send(self._out)
        except BlockingIOError:
            return
        except OSError:  # it has died: its end is seen by other means
            self._out = b""
            return
        self._out = self._out[sent:]

    def receive(self) -> bytes | None:
        """A frame if one is complete, else None.

        Raises:
            BrokenChannel: The other side announced a frame that is too long.
            EOFError: It has closed its end.
        """
        payload = self._frames.take()
        if payload is not None:
            return payload
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise EOFError from exc
        if not data:
            raise EOFError
        self._frames.feed(data)
        return self._frames.take()

    @property
    def surplus(self) -> bool:
        """Whether bytes came that no one asked for."""
        return bool(self._frames)

    def close(self) -> None:
        """Close the host's end."""
        self._socket.close()
        self.worker_end.close()


class _Frames:
    """Bytes that came in, and the frames they hold."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __bool__(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        self._data += data

    def take(self) -> bytes | None:
        """The first frame, if it is whole."""
        data = self._data
        if len(data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(data)
        if length > MAX_FRAME:
            raise BrokenChannel(f"it announced {length} bytes; a message has at most {MAX_FRAME}")
        end = _LENGTH.size + length
        if len(data) < end:
            return None
        payload = bytes(data[_LENGTH.size : end])
        del data[:end]
        return payload
