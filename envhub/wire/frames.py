"""Length-prefixed frames over a socketpair: blocking in the worker, never blocking in the host."""

import socket
import struct
from collections import deque
from contextlib import suppress

_LENGTH = struct.Struct("<I")

MAX_FRAME = 64 * 2**20
"""Bytes. A rendered 4K frame has 25 MB."""

EMPTY = _LENGTH.pack(0)
"""A frame without a payload."""

READ = 2**16
"""Bytes that are read at once."""

_FD = struct.Struct("=i")

_FD_SPACE = socket.CMSG_SPACE(4 * _FD.size)

# No signal also in a host that has given SIGPIPE its default action back.
_DONTWAIT = int(socket.MSG_DONTWAIT)

AT_ONCE = _DONTWAIT | int(socket.MSG_NOSIGNAL)
"""How the host sends."""

_SOON = struct.pack("@ll", 0, 10_000)
"""The longest wait of a host that reads without looking first, as the kernel takes it: 10 ms."""


class BrokenChannel(Exception):
    """The other side sent what no frame can be."""


class Channel:
    """The worker's end. Blocks."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._frames = _Frames()
        self._fds: deque[int] = deque()
        self._expecting = True

    def send(self, payload: bytes) -> None:
        """Send one frame."""
        if payload:
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
        else:
            self._socket.send(EMPTY)

    def receive(self) -> bytes:
        """The next frame.

        Raises:
            EOFError: The host has closed its end.
        """
        frames = self._frames
        while True:
            if frames.filled:
                payload = frames.take()
                if payload is not None:
                    return payload
            got = self._pull() if self._expecting else self._socket.recv_into(frames.room())
            if frames.fill(got):
                return b""

    def expect_fds(self, *, expecting: bool) -> None:
        """Whether descriptors may come; to look for them takes time."""
        self._expecting = expecting

    def take_fd(self) -> int:
        """The oldest descriptor that came along with frames."""
        return self._fds.popleft()

    def _pull(self) -> int:
        got, ancillary, _, _ = self._socket.recvmsg_into([self._frames.room()], _FD_SPACE)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._fds.extend(fd for (fd,) in _FD.iter_unpack(data))
        return got


class HostChannel:
    """The host's end. Sends what fits at once and keeps the rest; reads what is there."""

    def __init__(self) -> None:
        self.socket, self.worker_end = socket.socketpair()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SOON)
        self._frames = _Frames()
        self._out: bytes | memoryview = b""
        self._fds: tuple[int, ...] = ()

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether something waits for room."""
        return bool(self._out)

    def send(self, payload: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one frame, now or as `flush` finds room."""
        frame = _LENGTH.pack(len(payload)) + payload if payload else EMPTY
        self._out = b"".join((self._out, frame)) if self._out else frame
        self._fds = fds
        self.flush()

    def flush(self) -> None:
        """Send as much as there is room for."""
        try:
            if self._fds:
                rights = b"".join(_FD.pack(fd) for fd in self._fds)
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                sent = self.socket.sendmsg([self._out], ancillary, AT_ONCE)
                self._fds = ()
            else:
                sent = self.socket.send(self._out, AT_ONCE)
        except BlockingIOError:
            return
        except OSError:  # it has died: its end is seen by other means
            self._drop()
            return
        self._out = memoryview(self._out)[sent:] if sent < len(self._out) else b""

    def put_back(self, data: bytes | bytearray) -> None:
        """Bytes that were read from the socket, for `receive`."""
        self._frames.put(data)

    @property
    def unread(self) -> bool:
        """Whether something came that was not received."""
        return self._frames.filled

    def received_empty(self) -> bool:
        """Wait some milliseconds for an empty frame that comes alone; says whether it came.

        Whatever else comes is kept for `receive`. This is the cheapest wait there is, but it does
        not see a worker's death if its children live on.

        Raises:
            EOFError: It has closed its end.
        """
        try:
            return self._frames.fill(self.socket.recv_into(self._frames.room()))
        except BlockingIOError:
            return False
        except OSError as exc:
            raise EOFError from exc

    def receive(self) -> bytes | None:
        """A frame if one is complete, else None.

        Raises:
            BrokenChannel: The other side announced a frame that is too long.
            EOFError: It has closed its end.
        """
        frames = self._frames
        if frames.filled:
            payload = frames.take()
            if payload is not None:
                return payload
        try:
            got = self.socket.recv_into(frames.room(), 0, _DONTWAIT)
        except BlockingIOError:
            return None
        except OSError as exc:
            raise EOFError from exc
        return b"" if frames.fill(got) else frames.take()

    def close(self) -> None:
        """Close the host's end, also for those who inherited it by a fork of the host."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.worker_end.close()
        self._drop()

    def _drop(self) -> None:
        self._out, self._fds = b"", ()


class _Frames:
    """Bytes that came in, and the frames they hold. Its memory grows with what really came."""

    def __init__(self) -> None:
        self._data = bytearray(READ)
        self._room = memoryview(self._data)
        self._start = 0
        self._end = 0

    @property
    def filled(self) -> bool:
        """Whether there are bytes that were not taken."""
        return self._start < self._end

    def room(self) -> memoryview:
        """Where the next bytes go."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._data) == READ:
                return self._room
            self._renew(b"", READ)
        elif len(self._data) - self._end < READ:
            rest = self._data[self._start : self._end]
            self._start, self._end = 0, len(rest)
            self._renew(rest, max(READ, self._end))
        return self._room[self._end :]

    def put(self, data: bytes | bytearray) -> None:
        """Bytes that went elsewhere."""
        self.room()[: len(data)] = data
        self._end += len(data)

    def fill(self, count: int) -> bool:
        """So many bytes went there; says whether they were one empty frame, which is taken.

        Raises:
            EOFError: There were none.
        """
        if count == _LENGTH.size and not self._end and self._data.startswith(EMPTY):
            return True
        if not count:
            raise EOFError
        self._end += count
        return False

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
        return bytes(self._room[body : self._start])

    def _renew(self, content: bytes | bytearray, extra: int) -> None:
        self._data = bytearray(content) + bytes(extra)
        self._room = memoryview(self._data)
