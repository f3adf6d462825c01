"""How many processes a worker in a sandbox may have, and how much memory all of them together."""

import os
import socket
import threading
from contextlib import contextmanager

from support.sandboxes import MEMORY_MB, Sandbox, processes_of

from envhub.sandbox import supervisor


@contextmanager
def counting(sandbox: Sandbox):
    """How many processes are inside, again and again."""
    counts, end = [0], threading.Event()

    def count() -> None:
        while not end.wait(0.05):
            counts.append(len(processes_of(sandbox)))

    thread = threading.Thread(target=count)
    thread.start()
    yield counts
    end.set()
    thread.join()


class TestProcessesAndMemory:
    def test_a_fork_bomb(self, sandbox):
        program = """if True:
            import os, signal
            result = 0
            try:
                while True:
                    if os.fork() == 0:
                        signal.pause()
                    result += 1
            except BlockingIOError:
                pass
        """
        most = supervisor.processes()
        assert most - 10 < sandbox.run(program) < most
        assert not processes_of(sandbox)

    def test_a_fork_bomb_of_many_at_once(self, sandbox):
        program = """if True:
            import os, time
            until, worker, refused = time.monotonic() + 0.5, os.getpid(), False
            while time.monotonic() < until or not refused:  # a busy machine takes longer
                try:
                    os.fork()
                except BlockingIOError:
                    refused = True
            if os.getpid() != worker:
                os._exit(0)
            result = "over"
        """
        with counting(sandbox) as counts:
            assert sandbox.run(program) == "over"
        # Those that were let through and are not there yet cannot be counted.
        assert supervisor.processes() / 2 < max(counts) < 2 * supervisor.processes()
        assert not processes_of(sandbox)

    def test_threads(self, sandbox):
        program = """if True:
            import threading
            threading.stack_size(65536)
            result, end = 0, threading.Event()
            try:
                while True:
                    threading.Thread(target=end.wait, daemon=True).start()
                    result += 1
            except RuntimeError:
                pass
        """
        most = supervisor.processes()
        assert most - 10 < sandbox.run(program) < most

    def test_processes_that_have_ended_do_not_count(self, sandbox):
        program = """if True:
            import os
            for _ in range(given):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
            result = "all"
        """
        assert sandbox.run(program, given=2 * supervisor.processes()) == "all"

    def test_memory(self, sandbox):
        program = "import mmap; result = len(bytearray(given * 2**20))"
        assert sandbox.run(program, given=MEMORY_MB // 2) == MEMORY_MB // 2 * 2**20
        assert sandbox.run(program, given=MEMORY_MB + 1) == "MemoryError"

    def test_memory_that_is_only_mapped(self, sandbox):
        """Observations cross in a sparse mapping; drivers reserve address space."""
        program = """if True:
            import mmap
            result = len(mmap.mmap(-1, given * 2**20, mmap.MAP_SHARED))
            result += len(mmap.mmap(-1, given * 2**20, mmap.MAP_PRIVATE, mmap.PROT_READ))
        """
        assert sandbox.run(program, given=8 * MEMORY_MB) == 16 * MEMORY_MB * 2**20

    def test_shared_memory_that_is_used(self, sandbox):
        program = """if True:
            import mmap
            memory = mmap.mmap(-1, given * 2**20, mmap.MAP_SHARED)
            for page in range(0, len(memory), 4096):
                memory[page] = 1
            import time
            time.sleep(30)
        """
        assert sandbox.run(program, given=100, memory_mb=64).startswith("ended with 99")

    def test_memory_of_many_processes(self, sandbox):
        program = """if True:
            import os, time
            for _ in range(5):
                if os.fork() == 0:
                    break
            memory = b"x" * (40 * 2**20)
            time.sleep(30)
        """
        assert sandbox.run(program, memory_mb=128).startswith("ended with 99")

    def test_memory_that_processes_share_counts_once(self, sandbox):
        program = """if True:
            import os, signal, time
            memory = b"x" * (60 * 2**20)
            children = []
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    time.sleep(1)
                    os._exit(0)
                children.append(pid)
            for pid in children:
                os.waitpid(pid, 0)
            result = "fine"
        """
        assert sandbox.run(program, memory_mb=200) == "fine"


def test_a_worker_that_dies_before_it_asks():
    ours, theirs = socket.socketpair()
    theirs.close()
    supervisor.supervise(ours, os.getpid())
    assert ours.fileno() == -1
