"""Length-prefixed frames over a socketpair: blocking in the worker, never blocking in the host."""

import socket
import struct
from collections import deque
from contextlib import suppress

_LENGTH = struct.Struct("<I")

MAX_FRAME = 64 * 2**20
"""Bytes. A rendered 4K image has 25 MB."""

EMPTY = _LENGTH.pack(0)
"""A frame without a payload."""

READ = 2**16
"""Bytes to read at once."""

_FD = struct.Struct("=i")

_FD_SPACE = socket.CMSG_SPACE(4 * _FD.size)

_DONTWAIT = int(socket.MSG_DONTWAIT)

# MSG_NOSIGNAL, because a program that uses EnvHub may have restored the default action of SIGPIPE,
# which would end it when a worker dies.
AT_ONCE = _DONTWAIT | int(socket.MSG_NOSIGNAL)
"""Flags with which the host sends: never block, never raise SIGPIPE."""

_READ_TIMEOUT = struct.pack("@ll", 0, 10_000)
"""How long a blocking read of the host waits: 10 ms, as the kernel's `struct timeval`."""


class BrokenChannel(Exception):
    """The other side broke the protocol."""


class Channel:
    """The worker's end of the socketpair. Blocks."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._frames = _Frames()
        self._fds: deque[int] = deque()
        self._expecting_fds = True

    def send(self, payload: bytes) -> None:
        """Send one frame."""
        if payload:
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
        else:
            self._socket.send(EMPTY)

    def receive(self) -> bytes:
        """Wait for the next frame and return its payload.

        Raises:
            EOFError: The host has closed its end.
        """
        frames = self._frames
        while True:
            if frames.filled:
                payload = frames.take()
                if payload is not None:
                    return payload
            got = self._pull() if self._expecting_fds else self._socket.recv_into(frames.room())
            if frames.fill(got):
                return b""

    def expect_fds(self, *, expecting: bool) -> None:
        """Set whether file descriptors may come with frames; looking for them takes time."""
        self._expecting_fds = expecting

    def take_fd(self) -> int:
        """Return the oldest file descriptor that came with the frames."""
        return self._fds.popleft()

    def _pull(self) -> int:
        got, ancillary, _, _ = self._socket.recvmsg_into([self._frames.room()], _FD_SPACE)
        for level, message_type, data in ancillary:
            if (level, message_type) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._fds.extend(fd for (fd,) in _FD.iter_unpack(data))
        return got


class HostChannel:
    """The host's end. Sends what the socket takes and keeps the rest; reads what has arrived."""

    def __init__(self) -> None:
        self.socket, self.worker_end = socket.socketpair()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _READ_TIMEOUT)
        self._frames = _Frames()
        self._out: bytes | memoryview = b""
        self._fds: tuple[int, ...] = ()

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self.socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether a part of a frame could not be sent yet."""
        return bool(self._out)

    def send(self, payload: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one frame, or as much as the socket takes; `flush` sends the rest."""
        frame = _LENGTH.pack(len(payload)) + payload if payload else EMPTY
        self._out = b"".join((self._out, frame)) if self._out else frame
        self._fds = fds
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes."""
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
        except OSError:  # the worker has died, which its pidfd reports
            self._drop()
            return
        self._out = memoryview(self._out)[sent:] if sent < len(self._out) else b""

    def put_back(self, data: bytes | bytearray) -> None:
        """Keep bytes for `receive` that somebody else read from the socket."""
        self._frames.put(data)

    @property
    def unread(self) -> bool:
        """Whether bytes have arrived that `receive` has not returned."""
        return self._frames.filled

    def received_empty(self) -> bool:
        """Wait up to 10 ms for a single empty frame, and return whether it came.

        Anything else that arrives is kept for `receive`. This is the cheapest way to wait, but it
        does not notice the death of a worker whose children keep the socket open.

        Raises:
            EOFError: The worker has closed its end.
        """
        try:
            return self._frames.fill(self.socket.recv_into(self._frames.room()))
        except BlockingIOError:
            return False
        except OSError as exc:
            raise EOFError from exc

    def receive(self) -> bytes | None:
        """Return the payload of the next frame if it has arrived whole, else None.

        Raises:
            BrokenChannel: The worker announced a frame that is too long.
            EOFError: The worker has closed its end.
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
        """Close the host's end, also in processes that inherited it by a fork of the host."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.worker_end.close()
        self._drop()

    def _drop(self) -> None:
        self._out, self._fds = b"", ()


class _Frames:
    """A buffer of received bytes, read as frames.

    It grows with the bytes that have arrived, not with the length that the other side announces.
    """

    def __init__(self) -> None:
        self._data = bytearray(READ)
        self._room = memoryview(self._data)
        self._start = 0
        self._end = 0

    @property
    def filled(self) -> bool:
        """Whether the buffer holds bytes that were not taken."""
        return self._start < self._end

    def room(self) -> memoryview:
        """Return the part of the buffer to read the next bytes into."""
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
        """Append bytes that were read into another buffer."""
        self.room()[: len(data)] = data
        self._end += len(data)

    def fill(self, count: int) -> bool:
        """Take note of bytes that were read into `room()`.

        Returns:
            Whether they are exactly one empty frame; it is taken then.

        Raises:
            EOFError: `count` is 0: the other side has closed its end.
        """
        if count == _LENGTH.size and not self._end and self._data.startswith(EMPTY):
            return True
        if not count:
            raise EOFError
        self._end += count
        return False

    def take(self) -> bytes | None:
        """Return the payload of the first frame, or None while it is incomplete."""
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
