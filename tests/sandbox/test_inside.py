"""Hostile programs in real sandboxes: what they try, and that nothing comes of it."""

import errno
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest
from support.needs import needs_egl
from support.sandboxes import MEMORY_MB, ROOT

from envhub.machine import gl
from envhub.sandbox import filesystem, inside, landlock


class TestNetwork:
    """`ConnectionRefusedError` comes from a network of its own, on which nobody listens."""

    CONNECT = """if True:
        import socket
        socket.create_connection(("127.0.0.1", given), timeout=10).sendall(b"x")
        result = "connected"
    """
    SEND = """if True:
        import socket
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            result = udp.sendto(b"x", ("127.0.0.1", given))
    """

    def test_tcp(self, sandbox):
        with socket.create_server(("127.0.0.1", 0)) as server:
            answer = sandbox.run(self.CONNECT, given=server.getsockname()[1])
            server.settimeout(0.0)
            with pytest.raises(BlockingIOError):
                server.accept()
        assert (
            answer
            == {
                "bubblewrap": "ConnectionRefusedError",
                "landlock": "PermissionError",
            }[sandbox.kind]
        )

    def test_udp(self, sandbox):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.setblocking(False)
            answer = sandbox.run(self.SEND, given=server.getsockname()[1])
            with pytest.raises(BlockingIOError):
                server.recv(10)
        # In its own network it may send; nobody is there to receive.
        assert answer == {"bubblewrap": 1, "landlock": "PermissionError"}[sandbox.kind]

    def test_allowed(self, sandbox):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=2) as udp:
            udp.bind(("127.0.0.1", 0))
            udp.setblocking(False)
            port = server.getsockname()[1]
            assert sandbox.run(self.CONNECT, given=port, network=True) == "connected"
            assert sandbox.run(self.SEND, given=udp.getsockname()[1], network=True) == 1
            assert udp.recv(10) == b"x"

    def test_names(self, sandbox):
        program = """if True:
            import socket
            socket.getaddrinfo("huggingface.co", 443)
        """
        assert sandbox.run(program) == "gaierror"

    def test_interfaces(self, sandbox):
        program = """if True:
            import socket
            result = [name for _, name in socket.if_nameindex()]
        """
        answer = sandbox.run(program)
        assert answer == {"bubblewrap": ["lo"], "landlock": "PermissionError"}[sandbox.kind]

    @pytest.mark.parametrize("network", [False, True])
    def test_other_families(self, sandbox, network):
        """vsock reaches the host of a virtual machine, whatever the network namespace."""
        program = """if True:
            import socket
            result = []
            for family in (socket.AF_VSOCK, socket.AF_PACKET, socket.AF_ALG, 31):  # Bluetooth
                try:
                    socket.socket(family, socket.SOCK_RAW)
                except PermissionError:
                    result.append(family)
        """
        assert len(sandbox.run(program, network=network)) == 4

    @pytest.mark.parametrize("network", [False, True])
    @pytest.mark.parametrize("sort", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
    def test_unix_sockets(self, sandbox, network, sort):
        """The desktop's bus, a container engine: who reaches those is out."""
        program = """if True:
            import socket
            def attempt(make, address):
                try:
                    make().connect(address)
                except OSError as exc:
                    return type(exc).__name__
                return "connected"
            def pair():
                pairs.extend(socket.socketpair(socket.AF_UNIX, sort))
                return pairs[-1]
            pairs, (path, name, sort) = [], given
            addresses = path, "\\0" + name
            ways = lambda: socket.socket(socket.AF_UNIX, sort), pair
            result = [attempt(way, address) for way in ways for address in addresses]
        """
        name = f"envhub-test-{os.getpid()}"
        path = sandbox.shown.parent / "socket"
        with ExitStack() as stack:
            for address in (str(path), "\0" + name):
                server = stack.enter_context(socket.socket(socket.AF_UNIX, sort))
                server.bind(address)
                if sort == socket.SOCK_STREAM:
                    server.listen()
            os.chmod(path, 0o777)
            answer = sandbox.run(program, given=[str(path), name, sort], network=network)
        assert len(answer) == 4
        assert "connected" not in answer, answer

    def test_a_unix_socket_in_a_directory_that_is_shown(self, sandbox):
        """Only Landlock's rules matter here: bubblewrap would have to show the directory."""
        path = sandbox.scratch / "socket"
        program = """if True:
            import socket
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(given)
                server.listen()
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(given)
                    server.accept()[0].sendall(b"hello")
                    result = client.recv(10).decode()
        """
        answer = sandbox.run(program, given=str(path))
        assert answer == {"bubblewrap": "hello", "landlock": "PermissionError"}[sandbox.kind]


class TestOtherProcesses:
    def test_its_own_processes_can_be_signalled(self, sandbox):
        program = """if True:
            import subprocess, sys
            child = subprocess.Popen(["sleep", "1000"])
            child.terminate()
            result = child.wait()
        """
        blind = sandbox.kind == "landlock" and landlock.version()[0] < 6
        assert sandbox.run(program) == ("PermissionError" if blind else -signal.SIGTERM)

    def test_ptrace(self, sandbox):
        program = """if True:
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            result = [libc.ptrace(16, given, 0, 0), ctypes.get_errno()]
        """
        with sandbox.bystander() as process:
            assert sandbox.run(program, given=process.pid) == [-1, errno.EPERM]

    def test_what_proc_tells_of_others(self, sandbox):
        program = """if True:
            import os
            files = "environ", "cmdline", "mem", "maps", "status", "cwd/x", "root/etc/passwd"
            result = [attempt(open, f"/proc/{given}/{name}") for name in files]
            result += [attempt(os.listdir, f"/proc/{given}/fd")]
        """
        with sandbox.bystander() as process:
            answer = sandbox.run(program, given=process.pid)
        assert set(answer) <= {"FileNotFoundError", "PermissionError"}, answer

    def test_who_else_is_there(self, sandbox):
        program = "import os; result = [name for name in os.listdir('/proc') if name.isdecimal()]"
        answer = sandbox.run(program)
        assert answer == {"bubblewrap": ["1", "2"], "landlock": "PermissionError"}[sandbox.kind]

    def test_descriptors(self, sandbox):
        """Nothing of the guard or of the sandbox itself can be used."""
        program = """if True:
            import os
            links = [attempt(os.readlink, f"/proc/self/fd/{fd}") for fd in range(100)]
            result = sorted(link for link in links if link != "FileNotFoundError")
        """
        allowed = ("/dev/null", "pipe:", *map(str, filesystem.PROC), "/proc/")
        assert all(link.startswith(allowed) for link in sandbox.run(program))

    def test_limits_and_priorities_of_others(self, sandbox):
        program = """if True:
            import os, resource
            result = [
                attempt(resource.prlimit, given, resource.RLIMIT_CPU, (1, 1)),
                attempt(os.setpriority, os.PRIO_PROCESS, given, 19),
                attempt(os.sched_setaffinity, given, {0}),
            ]
        """
        with sandbox.bystander() as process:
            answer = sandbox.run(program, given=process.pid)
        assert set(answer) <= {"PermissionError", "ProcessLookupError"}

    def test_shared_memory_of_system_v(self, sandbox):
        key = 0x454E5600 + os.getpid() % 256
        libc = __import__("ctypes").CDLL(None)
        segment = libc.shmget(key, 4096, 0o1666)  # IPC_CREAT
        assert segment >= 0
        try:
            program = "import ctypes; result = ctypes.CDLL(None).shmget(given, 4096, 0o666)"
            assert sandbox.run(program, given=key) == -1
        finally:
            libc.shmctl(segment, 0, None)

    def test_calls_that_lead_out(self, sandbox):
        program = """if True:
            import ctypes, os
            libc = ctypes.CDLL(None)
            result = [
                libc.unshare(0x10000000), libc.unshare(0x20000), libc.setns(0, 0),
                libc.mount(b"x", b"/", b"tmpfs", 0, None), libc.chroot(b"."),
                libc.sethostname(b"x", 1), libc.syscall(425, 8, 0), libc.syscall(470),
            ]
            if os.uname().machine == "x86_64":
                result += [libc.syscall(321, 0, 0, 0), libc.syscall(250, 0, 0, 0)]  # bpf, keyctl
                result += [libc.syscall(56, 0x10000011, 0, 0, 0, 0), libc.syscall(0x40000027)]
        """
        assert set(sandbox.run(program)) == {-1}

    def test_capabilities(self, sandbox):
        program = """if True:
            lines = open("/proc/self/status").read().splitlines()
            found = dict(line.split(":") for line in lines)
            result = [int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
            result += [int(found["NoNewPrivs"]), int(found["Seccomp"])]
        """
        assert sandbox.run(program) == [0, 0, 0, 0, 1, 2]


class TestWhatWorks:
    def test_numpy_and_gymnasium(self, mine):
        program = """if True:
            import gymnasium, numpy
            space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
            result = [space.contains(space.sample()), float(numpy.ones((100, 100)).sum())]
        """
        assert mine.run(program) == [True, 10_000.0]

    def test_packages_are_those_of_this_interpreter(self, mine):
        program = """if True:
            import sys, msgspec
            result = [sys.prefix, sys.executable, msgspec.__file__]
        """
        import msgspec

        assert mine.run(program) == [sys.prefix, sys.executable, msgspec.__file__]

    def test_programs_pipes_and_threads(self, sandbox):
        program = """if True:
            import multiprocessing, subprocess, threading
            here, there = multiprocessing.Pipe()
            thread = threading.Thread(target=there.send, args=({"a": 1},))
            thread.start()
            thread.join()
            done = subprocess.run(["/bin/sh", "-c", "echo $((6 * 7))"], capture_output=True)
            result = [here.recv(), done.stdout.decode(), subprocess.getoutput("echo $HOME")]
        """
        assert sandbox.run(program) == [{"a": 1}, "42\n", str(sandbox.scratch)]

    def test_locks_between_processes(self, sandbox):
        """They live in /dev/shm, which only bubblewrap can give a process for itself."""
        program = """if True:
            import multiprocessing
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            child = context.Process(target=queue.put, args=("hello",))
            child.start()
            result = queue.get(timeout=10)
            child.join()
        """
        answer = sandbox.run(program)
        assert answer == {"bubblewrap": "hello", "landlock": "PermissionError"}[sandbox.kind]

    def test_a_network_of_its_own(self, sandbox):
        program = """if True:
            import socket
            with socket.create_server(("127.0.0.1", 0)) as server:
                with socket.create_connection(server.getsockname()) as client:
                    server.accept()[0].sendall(b"hello")
                    result = client.recv(10).decode()
        """
        answer = sandbox.run(program)
        assert answer == {"bubblewrap": "hello", "landlock": "PermissionError"}[sandbox.kind]

    def test_inherited_sockets_and_the_memory_that_comes_through_them(self, sandbox):
        program = """if True:
            import mmap, os, socket
            with socket.socket(fileno=given) as channel:
                _, (fd,), _, _ = socket.recv_fds(channel, 10, 1)
                with mmap.mmap(fd, 0) as memory:
                    memory[:5] = b"hello"
                channel.sendall(b"done")
            result = os.fstat(fd).st_size
        """
        fd = os.memfd_create("test")
        size = 4 * MEMORY_MB * 2**20  # sparse
        os.truncate(fd, size)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(ours, [b"x"], [fd])
            inherited = theirs.fileno()
            assert sandbox.run(program, given=inherited, descriptors=[inherited]) == size
            theirs.close()
            assert ours.recv(10) == b"done"
            assert ours.recv(10) == b"", "somebody still holds the other end"
        with mmap.mmap(fd, 4096) as memory:
            assert memory[:5] == b"hello"
        os.close(fd)

    @needs_egl
    def test_drawing(self, mine):
        outside = gl.probe_gl("egl")
        program = """if True:
            import subprocess, sys
            argv = [sys.executable, "-I", given, "egl"]
            done = subprocess.run(argv, capture_output=True, text=True)
            result = done.stdout.splitlines()[-1]
        """
        probe = str(ROOT / "envhub/machine/glprobe.py")
        assert json.loads(mine.run(program, given=probe)) == {"renderer": outside.renderer}

    def test_the_exit_status_passes_through(self, sandbox):
        assert sandbox.run("import os; os._exit(7)") == "ended with 7: "

    def test_death_by_a_signal_passes_through(self, sandbox):
        answer = sandbox.run("import ctypes; ctypes.string_at(0)")
        killed = {"bubblewrap": 128 + signal.SIGSEGV, "landlock": 256 - signal.SIGSEGV}
        assert answer == f"ended with {killed[sandbox.kind]}: "


def test_a_process_with_threads_is_not_shut_in(directory):
    """Only the calling thread would be."""
    code = """if True:
        import threading
        from pathlib import Path
        from envhub.sandbox.inside import Protection, confine
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        try:
            protection = Protection("landlock", False, None)
            confine(protection, scratch=Path("/"), readable=[], supervisor=0)
        except RuntimeError as exc:
            print(exc)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = "A process with several threads cannot be confined: only one would be.\n"
    assert (done.stdout, done.stderr) == (expected, "")


class TestLimits:
    def test_the_size_of_a_file(self, sandbox):
        program = """if True:
            with open("file", "wb") as file:
                file.truncate(given * 2**20)
            result = "fine"
        """
        assert sandbox.run(program, given=inside.FILE_MB) == "fine"
        assert sandbox.run(program, given=inside.FILE_MB + 1) == "OSError"

    def test_limits_cannot_be_raised(self, sandbox):
        program = """if True:
            import resource
            result = []
            for name in ("DATA", "FSIZE", "CPU", "NOFILE", "CORE"):
                kind = getattr(resource, "RLIMIT_" + name)
                soft, hard = resource.getrlimit(kind)
                try:
                    resource.setrlimit(kind, (soft, hard + 1))
                except (ValueError, OSError):
                    result.append([soft, hard])
        """
        most_files = min(4096, subprocess_hard_limit_of_files())
        assert sandbox.run(program) == [
            [MEMORY_MB * 2**20] * 2, [inside.FILE_MB * 2**20] * 2,
            [inside.CPU_SECONDS] * 2, [most_files] * 2, [0, 0],
        ]  # fmt: skip


def subprocess_hard_limit_of_files() -> int:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 4096 if hard == resource.RLIM_INFINITY else hard
