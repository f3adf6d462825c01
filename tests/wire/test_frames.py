"""Frames over a real socketpair, with the other side held by the test."""

import os
import select
import socket
import struct
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.wire.frames import MAX_FRAME, BrokenChannel, Channel, HostChannel

pytestmark = pytest.mark.timeout(60)
payloads = st.lists(st.binary(max_size=200), max_size=8)


@pytest.fixture
def host():
    channel = HostChannel()
    yield channel
    channel.close()


@pytest.fixture
def worker(host):
    """The worker's end of `host`."""
    channel = Channel(os.dup(host.worker_end.fileno()))
    yield channel
    channel._socket.close()


def frame(payload):
    return struct.pack("<I", len(payload)) + payload


def receive_all(channel, count):
    """So many frames, waiting for each."""
    found = []
    while len(found) < count:
        select.select([channel.fileno()], [], [], 0 if found else 10)
        payload = channel.receive()
        if payload is not None:
            found.append(payload)
    return found


def test_there_and_back(host, worker):
    @settings(deadline=None)
    @given(payloads)
    def run(messages):
        for message in messages:
            host.send(message)
        assert [worker.receive() for _ in messages] == messages
        for message in messages:
            worker.send(message)
        assert receive_all(host, len(messages)) == messages
        assert host.receive() is None

    run()


def test_frames_may_come_in_any_pieces(host):
    @settings(deadline=None)
    @given(payloads, st.lists(st.integers(1, 50), min_size=1))
    def run(messages, sizes):
        data = b"".join(map(frame, messages))
        found = []
        while data:
            size = sizes[len(data) % len(sizes)]
            host.worker_end.sendall(data[:size])
            data = data[size:]
            while (payload := host.receive()) is not None:
                found.append(payload)
        assert found == messages

    run()


def test_a_frame_is_not_taken_before_its_last_byte(host):
    host.worker_end.sendall(frame(b"whole")[:-1])
    assert host.receive() is None
    host.worker_end.sendall(b"e")
    assert host.receive() == b"whole"


@pytest.mark.parametrize("length", [MAX_FRAME + 1, 2**31, 2**32 - 1])
def test_a_frame_that_is_announced_too_long_is_refused_at_once(length, host):
    host.worker_end.sendall(struct.pack("<I", length))
    with pytest.raises(BrokenChannel, match=f"it announced {length} bytes"):
        host.receive()


def test_memory_is_taken_for_what_came_not_for_what_was_announced(host):
    host.worker_end.sendall(struct.pack("<I", MAX_FRAME) + b"x" * 1000)
    tracemalloc.start()
    assert host.receive() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_a_frame_of_the_largest_size_comes_whole_and_its_memory_goes(host, worker):
    payload = b"\1\2\3\4" * (MAX_FRAME // 4)
    tracemalloc.start()
    sender = threading.Thread(target=worker.send, args=(payload,))
    sender.start()
    assert receive_all(host, 1) == [payload]
    sender.join()
    worker.send(b"small")
    assert receive_all(host, 1) == [b"small"]
    assert host.receive() is None
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**20


class TestSending:
    def test_what_nobody_reads_is_kept_and_does_not_block(self, host):
        host.send(b"x" * 2**24)
        assert host.unsent

    def test_what_was_kept_goes_as_there_is_room(self, host, worker):
        payload = os.urandom(2**22)
        host.send(payload)
        host.send(b"and this")
        found = []
        reader = threading.Thread(target=lambda: found.extend(worker.receive() for _ in range(2)))
        reader.start()
        while host.unsent:
            select.select([], [host.fileno()], [])
            host.flush()
        reader.join()
        assert found == [payload, b"and this"]

    def test_what_was_sent_is_not_kept_in_memory(self, host, worker):
        tracemalloc.start()
        host.send(b"x" * 2**24)
        reader = threading.Thread(target=worker.receive)
        reader.start()
        while host.unsent:
            select.select([], [host.fileno()], [])
            host.flush()
        reader.join()
        worker._frames.room()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 2**20

    def test_to_a_closed_end_it_is_dropped(self, host):
        host.worker_end.close()
        host.send(b"x" * 2**24)
        assert not host.unsent


class TestDescriptors:
    def test_they_come_with_their_frame_in_order(self, host, worker):
        for text in (b"first", b"second"):
            fd = os.memfd_create("test")
            os.write(fd, text)
            host.send(b"here it is", (fd,))
            os.close(fd)
        for text in (b"first", b"second"):
            assert worker.receive() == b"here it is"
            fd = worker.take_fd()
            assert os.pread(fd, 100, 0) == text
            os.close(fd)

    def test_those_that_a_worker_sends_are_not_taken(self, host):
        before = os.listdir("/proc/self/fd")
        with open(os.devnull) as null:
            socket.send_fds(host.worker_end, [frame(b"with some")], [null.fileno()] * 100)
        assert host.receive() == b"with some"
        assert os.listdir("/proc/self/fd") == before


class TestEnd:
    def test_the_host_is_told(self, host):
        host.worker_end.close()
        with pytest.raises(EOFError):
            host.receive()

    def test_after_half_a_frame_too(self, host):
        host.worker_end.sendall(frame(b"never whole")[:7])
        host.worker_end.close()
        assert host.receive() is None
        with pytest.raises(EOFError):
            host.receive()

    def test_what_came_before_it_counts(self, host):
        host.worker_end.sendall(frame(b"last words"))
        host.worker_end.close()
        assert host.receive() == b"last words"
        with pytest.raises(EOFError):
            host.receive()

    def test_the_worker_is_told(self, host, worker):
        host.send(b"bye")
        host.close()
        assert worker.receive() == b"bye"
        with pytest.raises(EOFError):
            worker.receive()

    def test_also_if_a_fork_of_the_host_holds_its_end(self, host, worker):
        held = os.dup(host.fileno())
        host.close()
        with pytest.raises(EOFError):
            worker.receive()
        os.close(held)

    def test_closing_twice_does_no_harm(self, host):
        host.close()
        host.close()
        assert not host.unsent
