"""Length-prefixed frames over a socketpair: blocking in the worker, never blocking in the host."""

import socket
import struct
from collections import deque
from contextlib import suppress

_LENGTH = struct.Struct("<I")
MAX_FRAME = 64 * 2**20
"""Bytes. A rendered 4K frame has 25 MB."""
_READ = 2**16
_FD = struct.Struct("=i")
_FD_SPACE = socket.CMSG_SPACE(4 * _FD.size)
# Also in a host that has given SIGPIPE its default action back.
_NO_SIGPIPE = socket.MSG_NOSIGNAL


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
            got, ancillary, _, _ = self._socket.recvmsg_into([self._frames.room()], _FD_SPACE)
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self._fds.extend(fd for (fd,) in _FD.iter_unpack(data))
            if not got:
                raise EOFError
            self._frames.fill(got)

    def take_fd(self) -> int:
        """The oldest descriptor that came along with frames."""
        return self._fds.popleft()


class HostChannel:
    """The host's end. Sends what fits at once and keeps the rest; reads what is there."""

    def __init__(self) -> None:
        self._socket, self.worker_end = socket.socketpair()
        self._socket.setblocking(False)
        self._frames = _Frames()
        self._out = memoryview(b"")
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
        self._fds = fds
        self._out = memoryview(b"".join((self._out, _LENGTH.pack(len(payload)), payload)))
        self.flush()

    def flush(self) -> None:
        """Send as much as there is room for."""
        try:
            if self._fds:
                rights = b"".join(_FD.pack(fd) for fd in self._fds)
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                sent = self._socket.sendmsg([self._out], ancillary, _NO_SIGPIPE)
                self._fds = ()
            else:
                sent = self._socket.send(self._out, _NO_SIGPIPE)
        except BlockingIOError:
            return
        except OSError:  # it has died: its end is seen by other means
            self._drop()
            return
        self._out = self._out[sent:] if sent < len(self._out) else memoryview(b"")

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
            got = self._socket.recv_into(self._frames.room())
        except BlockingIOError:
            return None
        except OSError as exc:
            raise EOFError from exc
        if not got:
            raise EOFError
        self._frames.fill(got)
        return self._frames.take()

    def close(self) -> None:
        """Close the host's end, also for those who inherited it by a fork of the host."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.worker_end.close()
        self._drop()

    def _drop(self) -> None:
        self._out, self._fds = memoryview(b""), ()


class _Frames:
    """Bytes that came in, and the frames they hold. Its memory grows with what really came."""

    def __init__(self) -> None:
        self._data = bytearray(_READ)
        self._start = 0
        self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._data) > _READ:
                self._data = bytearray(_READ)
        elif len(self._data) - self._end < _READ:
            self._data = self._data[self._start : self._end]
            self._start, self._end = 0, len(self._data)
            self._data += bytes(max(_READ, self._end))
        return memoryview(self._data)[self._end :]

    def fill(self, count: int) -> None:
        """So many bytes went there."""
        self._end += count

    def take(self) -> bytes | None:
        """The first frame, if it is whole."""
        body = self._start + _LENGTH.size
        if self._end < body:
            return None
        (length,) = _LENGTH.unpack_from(self._data, self._start)
        if length > MAX_FRAME:
            raise BrokenChannel(f"it announced {length} bytes; a message has at most {MAX_FRAME}")
        if self._end < body + length:
            return None
        self._start = body + length
        return bytes(memoryview(self._data)[body : self._start])
