"""Hostile programs in real sandboxes: what they try, and that nothing comes of it.

Each program runs as a worker would: a launcher, which stands for the guard, starts an interpreter
by `command`, limits and supervises it; inside, the process confines itself by `confine` and only
then runs the program. As root everything is tried as an ordinary user too.
"""

import errno
import json
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.sources import confined_spec

import envhub
from envhub.errors import HomeExposed, SandboxUnavailable, WorkerDied
from envhub.host.worker import Worker
from envhub.machine import gl
from envhub.sandbox import filesystem, landlock, supervisor
from envhub.sandbox import inside as sandbox_inside
from envhub.sandbox.bubblewrap import wrap
from envhub.sandbox.choose import choose, command, protect, trouble
from envhub.sandbox.inside import Protection
from envhub.types import Confinement
from envhub.wire.messages import Call

ROOT = Path(envhub.__file__).parent.parent
NOBODY = 65534
MEMORY_MB = 1024

LAUNCH = """if True:
    import ctypes, json, os, select, signal, socket, subprocess, sys, threading
    from pathlib import Path
    asked = json.loads(sys.argv[1])
    sys.path.append(asked["root"])
    from envhub.sandbox import filesystem, supervisor
    from envhub.sandbox.inside import Protection
    from envhub.sandbox.choose import command
    from envhub.sandbox.variables import worker_variables

    protection = Protection(**asked["protection"])
    scratch = Path(asked["scratch"])
    readable = [*filesystem.interpreter_paths(), *map(Path, asked["readable"])]
    ours, theirs = socket.socketpair()
    inner = asked | {"supervisor": theirs.fileno(), "readable": [str(path) for path in readable]}
    argv = [sys.executable, "-P", "-S", "-c", asked["inside"], json.dumps(inner)]
    child = subprocess.Popen(
        command(protection, argv, scratch=scratch, readable=readable),
        env=worker_variables(scratch),
        cwd=scratch,
        pass_fds=(theirs.fileno(), *asked["descriptors"]),
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    me = os.getpid()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what is orphaned comes to this process
    threading.Thread(target=supervisor.supervise, args=(ours, me), daemon=True).start()
    ended = select.poll()
    ended.register(os.pidfd_open(child.pid))
    status = None
    while status is None:
        if ended.poll(100):
            status = child.wait()
        elif supervisor.too_much_memory(me, protection.memory_mb):
            status = 99
    while True:
        for pid in map(int, Path(f"/proc/self/task/{me}/children").read_text().split()):
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(status)
"""

INSIDE = """if True:
    import json, sys
    from pathlib import Path
    asked = json.loads(sys.argv[1])
    sys.path.append(asked["root"])
    from envhub.sandbox.inside import Protection, confine
    from time import perf_counter

    begin = perf_counter()
    confine(
        Protection(**asked["protection"]),
        scratch=Path(asked["scratch"]),
        readable=[Path(path) for path in asked["readable"]],
        supervisor=asked["supervisor"],
        abi=asked["abi"],
    )
    seconds = perf_counter() - begin
    import os, site
    site.main()

    def attempt(act, *arguments):
        try:
            return act(*arguments)
        except BaseException as exc:
            return type(exc).__name__

    scope = {"attempt": attempt, "given": asked["given"], "seconds": seconds, "result": None}
    try:
        exec(asked["program"], scope)
        answer = scope["result"]
    except BaseException as exc:
        answer = type(exc).__name__
        if asked["debug"]:
            import traceback
            traceback.print_exc()
    sys.stdout.flush()
    print()
    print(json.dumps(answer), flush=True)
    os._exit(0)
"""


class Sandbox:
    """Runs programs in one kind of sandbox, as one user."""

    def __init__(self, kind: str, python: str, user: int | None, directory: Path) -> None:
        self.kind = kind
        self.user = user
        self.python = python
        self.home = directory / "home"
        self.shown = directory / "shown"
        self.scratch = directory / "scratch"
        for path in (self.home, self.shown, self.scratch):
            path.mkdir()
            self.give(path)

    def give(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def file(self, path: Path, text: str) -> Path:
        """A file of the user who runs the sandbox."""
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700)
            self.give(path.parent)
        path.write_text(text)
        self.give(path)
        return path

    def as_user(self, *argv: str) -> list[str]:
        if self.user is None:
            return list(argv)
        ids = (f"--reuid={self.user}", f"--regid={self.user}")
        return ["setpriv", *ids, "--clear-groups", *argv]

    @contextmanager
    def bystander(self):
        """Another process of the same user."""
        with subprocess.Popen(self.as_user("sleep", "1000")) as process:
            yield process
            assert process.poll() is None, "it was killed"
            process.kill()

    def run(
        self,
        program: str,
        *,
        given=None,
        network: bool = False,
        memory_mb: int = MEMORY_MB,
        abi: int = landlock.NEWEST,
        descriptors=(),
        debug: bool = False,
    ):
        """What the program left in `result`, or the name of what it raised."""
        protection = Protection(
            self.kind, network, memory_mb, supervisor.processes(), sandbox_inside.FILE_MB
        )
        asked = {
            "root": str(ROOT), "inside": INSIDE, "program": program, "given": given, "abi": abi,
            "scratch": str(self.scratch), "readable": [str(self.shown)], "debug": debug,
            "descriptors": list(descriptors), "protection": protection.to_json(),
        }  # fmt: skip
        done = subprocess.run(
            self.as_user(self.python, "-c", LAUNCH, json.dumps(asked)),
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "HOME": str(self.home),
                "HF_TOKEN": "hf_secret",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=descriptors,
            text=True,
            timeout=60,
        )
        if done.returncode:
            return f"ended with {done.returncode}: {done.stderr[-2000:]}"
        assert debug or not done.stderr, done.stderr
        if debug:
            print(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


def system_python() -> str | None:
    """An interpreter that another user can run: this one may lie in a home."""
    return shutil.which("python{}.{}".format(*sys.version_info), path="/usr/bin:/usr/local/bin")


USERS = ["me"]
if os.getuid() == 0 and shutil.which("setpriv") and system_python():
    USERS.append("nobody")


def make_sandbox(kind: str, user: str, directory: Path) -> Sandbox:
    try:
        choose(kind)
    except SandboxUnavailable as exc:
        pytest.skip(str(exc))
    os.chmod(directory, 0o755)
    if user == "me":
        return Sandbox(kind, sys.executable, None, directory)
    return Sandbox(kind, system_python(), NOBODY, directory)


@pytest.fixture
def directory():
    """One that other users can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="envhub-test-") as name:
        yield Path(name)


@pytest.fixture(params=["bubblewrap", "landlock"])
def kind(request) -> str:
    return request.param


@pytest.fixture(params=USERS)
def user(request) -> str:
    return request.param


@pytest.fixture
def sandbox(kind, user, directory) -> Sandbox:
    return make_sandbox(kind, user, directory)


@pytest.fixture
def mine(kind, directory) -> Sandbox:
    """Only as whoever runs the tests: with this interpreter's packages."""
    return make_sandbox(kind, "me", directory)


def abis(*older: int):
    """Both kinds, and Landlock as older kernels have it too."""
    both = [("bubblewrap", landlock.NEWEST), ("landlock", landlock.NEWEST)]
    return pytest.mark.parametrize(("kind", "abi"), both + [("landlock", abi) for abi in older])


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


class TestFiles:
    READ = """if True:
        with open(given) as file:
            result = file.read()
    """
    WRITE = """if True:
        with open(given, "w") as file:
            file.write("pwned")
        result = "written"
    """

    def test_a_key_at_home(self, sandbox):
        key = sandbox.file(sandbox.home / ".ssh" / "id_ed25519", "private")
        answer = sandbox.run(self.READ, given=str(key))
        assert answer in ("FileNotFoundError", "PermissionError")

    def test_settings_beside_the_interpreter(self, sandbox):
        """Where people keep the password of their package index."""
        home = sandbox.shown.parent / "venv"
        argv = (sandbox.python, "-m", "venv", "--without-pip", str(home))
        subprocess.run(argv, check=True)
        names = ("pip.conf", "uv.toml", ".netrc", ".condarc", "etc/conda/condarc", "envs/a/b")
        for name in names:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            sandbox.file(home / name, "https://me:password@index")
        program = """if True:
            result = [attempt(lambda: open(path).read()) for path in given]
        """
        sandbox.python = str(home / "bin/python")
        paths = [str(home / name) for name in (*names, "pyvenv.cfg")]
        *secrets, own = sandbox.run(program, given=paths)
        assert set(secrets) <= {"FileNotFoundError", "PermissionError"}, secrets
        assert own.startswith("home = ")

    def test_home_is_the_scratch_directory(self, sandbox):
        program = "from pathlib import Path; result = [str(Path.home()), str(Path.cwd())]"
        assert sandbox.run(program) == [str(sandbox.scratch)] * 2

    def test_tokens(self, sandbox):
        program = """if True:
            import os
            result = [*os.environ.values(), open("/proc/self/environ").read()]
        """
        assert not any("secret" in text for text in sandbox.run(program))

    def test_the_rest_of_the_system(self, sandbox):
        program = """if True:
            import os
            result = {path: attempt(os.listdir, path) for path in given["directories"]}
            result |= {path: attempt(open, path) for path in given["files"]}
        """
        directories = ["/etc", "/root", "/home", "/var", "/var/log", "/boot", "/run", "/sys", "/"]
        files = ["/etc/shadow", "/etc/hostname", "/etc/machine-id", "/dev/kmsg", "/dev/tty"]
        answer = sandbox.run(program, given={"directories": directories, "files": files})
        if sandbox.kind == "bubblewrap":
            # What is shown of them lies in otherwise empty directories.
            assert set(answer.pop("/etc")) <= {*os.listdir("/etc")} - {"shadow", "hostname", "ssh"}
            assert set(answer.pop("/")) >= {"dev", "etc", "proc", "sys", "tmp", "usr"}
            assert set(answer.pop("/sys")) == {"devices", "kernel"} or filesystem.gpus()
            assert answer.pop("/root") in ([".pyenv"], "FileNotFoundError")
        assert set(answer.values()) <= {"FileNotFoundError", "PermissionError", "OSError"}, answer

    def test_writing_elsewhere(self, sandbox):
        program = """if True:
            result = [attempt(open, path, "w") for path in given]
        """
        places = ("/usr/bin", "/etc", "/", "/dev", "/proc", "/sys/devices/system", "/var/tmp")
        directories = (sandbox.shown, sandbox.home, f"{sys.prefix}/lib", ROOT / "envhub", *places)
        paths = [str(Path(directory, "envhub-test")) for directory in directories]
        answer = sandbox.run(program, given=paths)
        assert set(answer) <= {"FileNotFoundError", "PermissionError", "OSError"}, answer
        assert not any(Path(path).exists() for path in paths)

    def test_writing_into_the_common_temporary_directory(self, sandbox):
        path = Path(tempfile.gettempdir(), f"envhub-test-{os.getpid()}")
        answer = sandbox.run(self.WRITE, given=str(path))
        assert answer == {"bubblewrap": "written", "landlock": "PermissionError"}[sandbox.kind]
        assert not path.exists()

    def test_what_is_shown_can_be_read(self, sandbox):
        file = sandbox.file(sandbox.shown / "env.py", "code")
        assert sandbox.run(self.READ, given=str(file)) == "code"

    @abis(1, 2, 3)
    def test_changing_what_is_shown(self, sandbox, abi):
        """Before version 3 Landlock itself does not guard truncating, and never metadata."""
        program = """if True:
            import os
            result = [attempt(act) for act in (
                lambda: os.open(given, os.O_RDONLY | os.O_TRUNC),
                lambda: os.open(given, os.O_WRONLY | os.O_TRUNC),
                lambda: os.open(given, os.O_RDWR),
                lambda: os.truncate(given, 0),
                lambda: os.unlink(given),
                lambda: os.rename(given, given + "2"),
                lambda: os.rename(given, "stolen"),
                lambda: os.link(given, "linked"),
                lambda: os.link(given, given + "2"),
                lambda: os.symlink("x", given + "2"),
                lambda: os.mkdir(given + "2"),
            )]
            with open(given) as file:
                for act in (
                    lambda: os.chmod(given, 0o777),
                    lambda: os.fchmod(file.fileno(), 0o777),
                    lambda: os.utime(given, (1, 1)),
                    lambda: os.setxattr(given, "user.x", b"x"),
                ):
                    attempt(act)
        """
        file = sandbox.file(sandbox.shown / "env.py", "code")
        before = file.stat()
        answer = sandbox.run(program, given=str(file), abi=abi)
        assert set(answer) <= {"PermissionError", "OSError"}, answer
        after = file.stat()
        assert (after.st_mode, after.st_mtime, after.st_nlink, after.st_ctime) == (
            before.st_mode, before.st_mtime, before.st_nlink, before.st_ctime,
        )  # fmt: skip
        assert os.listdir(sandbox.shown) == ["env.py"]
        assert os.listxattr(file) == []

    @abis(1)
    def test_the_scratch_directory_is_an_ordinary_one(self, sandbox, abi):
        program = """if True:
            import os, shutil, subprocess, tempfile
            os.makedirs("a/b")
            open("a/file", "w").write("text")
            shutil.copy2("a/file", "a/copy")
            os.replace("a/copy", "a/moved")
            shutil.move("a/moved", "a/b/moved")
            os.symlink("file", "a/link")
            os.mkfifo("a/pipe")
            with open("a/file", "r+") as file:
                file.truncate(2)
            with tempfile.TemporaryFile() as file:
                file.write(b"x")
            result = [open("a/link").read(), open("a/b/moved").read(), tempfile.gettempdir()]
            shutil.rmtree("a")
        """
        answer = sandbox.run(program, abi=abi, debug=True)
        assert answer == ["te", "text", str(sandbox.scratch)]
        assert os.listdir(sandbox.scratch) == []

    def test_leases_and_notices(self, sandbox):
        """Leases hold up whoever opens a file to write; notices tell when others use one."""
        program = """if True:
            import ctypes, fcntl, os, signal
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            directory = os.open(given, os.O_RDONLY | os.O_DIRECTORY)
            file = os.open(given + "/env.py", os.O_RDONLY)
            libc = ctypes.CDLL(None, use_errno=True)
            watcher = libc.inotify_init1(os.O_CLOEXEC)
            result = [
                attempt(fcntl.fcntl, file, 1024, fcntl.F_RDLCK),  # F_SETLEASE
                attempt(fcntl.fcntl, directory, 1026, 0x8000003F),  # F_NOTIFY, of everything
                attempt(fcntl.fcntl, directory, 1040, bytes(16)),  # F_SETDELEG, a newer lease
                libc.inotify_add_watch(watcher, given.encode(), 0xFFF) < 0 or "watches",
            ]
        """
        sandbox.file(sandbox.shown / "env.py", "code")
        answer = sandbox.run(program, given=str(sandbox.shown))
        assert answer == ["OSError", "OSError", "OSError", True]

    def test_no_device_nodes(self, sandbox):
        program = """if True:
            import os, stat
            os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
        """
        assert sandbox.run(program) == "PermissionError"

    def test_the_kernels_settings(self, sandbox):
        """As root outside bubblewrap alone lets these be written."""
        program = """if True:
            def rewrite(path):
                text = open(path).read()
                open(path, "w").write(text)
            result = [attempt(rewrite, path) for path in given]
        """
        files = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness"]
        assert set(sandbox.run(program, given=files)) <= {"PermissionError", "OSError"}

    def test_the_modes_of_devices(self, sandbox):
        before = [os.stat(path).st_mode for path in filesystem.DEVICES]
        program = """if True:
            import os
            for path in given:
                attempt(os.chmod, path, 0o600)
        """
        sandbox.run(program, given=[str(path) for path in filesystem.DEVICES])
        assert [os.stat(path).st_mode for path in filesystem.DEVICES] == before

    def test_devices_work(self, sandbox):
        program = """if True:
            open("/dev/null", "w").write("x")
            result = [len(open(f"/dev/{name}", "rb").read(9)) for name in ("zero", "urandom")]
        """
        assert sandbox.run(program) == [9, 9]


class TestOtherProcesses:
    @abis(1, 5)
    def test_signals(self, sandbox, abi):
        program = """if True:
            import ctypes, fcntl, os, signal
            def by_the_kernel():
                # Ready to read at once, and then the owner gets a signal.
                read, write = os.pipe()
                fcntl.fcntl(read, fcntl.F_SETOWN, given)
                fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
                os.write(write, b"x")
            result = [
                attempt(os.kill, given, signal.SIGKILL),
                attempt(os.killpg, given, signal.SIGKILL),
                attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(given), signal.SIGKILL)),
                -1 if ctypes.CDLL(None).syscall(200, given, 9) else "sent",
            ]
            attempt(by_the_kernel)
        """
        with sandbox.bystander() as process:
            answer = sandbox.run(program, given=process.pid, abi=abi)
            time.sleep(0.05)
        assert set(answer) <= {"ProcessLookupError", "PermissionError", -1}, answer

    def test_its_own_processes_can_be_signalled(self, sandbox):
        program = """if True:
            import subprocess, sys
            child = subprocess.Popen(["sleep", "1000"])
            child.terminate()
            result = child.wait()
        """
        blind = sandbox.kind == "landlock" and landlock.version()[0] < 6
        assert sandbox.run(program) == ("PermissionError" if blind else -signal.SIGTERM)

    @abis(1)
    def test_a_signal_to_itself(self, sandbox, abi):
        program = """if True:
            import os, signal
            caught = []
            signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            result = len(caught)
        """
        assert sandbox.run(program, abi=abi) == 2

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

    def test_the_process_that_bubblewrap_leaves_inside(self, user, directory):
        """It has no filter, so nobody may write into its memory."""
        sandbox = make_sandbox("bubblewrap", user, directory)
        program = 'result = [attempt(open, "/proc/1/mem", mode) for mode in ("r+b", "wb")]'
        assert set(sandbox.run(program)) <= {"OSError", "PermissionError"}

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


class TestBounds:
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
        assert not inside(sandbox)

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
        assert not inside(sandbox)

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

    def test_the_size_of_a_file(self, sandbox):
        program = """if True:
            with open("file", "wb") as file:
                file.truncate(given * 2**20)
            result = "fine"
        """
        assert sandbox.run(program, given=sandbox_inside.FILE_MB) == "fine"
        assert sandbox.run(program, given=sandbox_inside.FILE_MB + 1) == "OSError"

    def test_the_common_directories_of_bubblewrap(self, directory):
        sandbox = make_sandbox("bubblewrap", "me", directory)
        program = """if True:
            import os
            result = [os.statvfs(path).f_blocks * os.statvfs(path).f_frsize for path in given]
        """
        assert sandbox.run(program, given=["/tmp", "/dev/shm"]) == [256 * 2**20] * 2

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
            [MEMORY_MB * 2**20] * 2, [sandbox_inside.FILE_MB * 2**20] * 2,
            [sandbox_inside.CPU_SECONDS] * 2, [most_files] * 2, [0, 0],
        ]  # fmt: skip


def subprocess_hard_limit_of_files() -> int:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 4096 if hard == resource.RLIM_INFINITY else hard


def inside(sandbox: Sandbox) -> list[int]:
    """The processes whose directory is the scratch directory, as only those inside have it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if os.readlink(entry / "cwd").startswith(str(sandbox.scratch)):
                    found.append(int(entry.name))
    return found


@contextmanager
def counting(sandbox: Sandbox):
    """How many processes are inside, again and again."""
    counts, end = [0], threading.Event()

    def count() -> None:
        while not end.wait(0.05):
            counts.append(len(inside(sandbox)))

    thread = threading.Thread(target=count)
    thread.start()
    yield counts
    end.set()
    thread.join()


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

    def test_drawing(self, mine):
        outside = gl.probe_gl("egl")
        if not isinstance(outside, gl.Renders):
            pytest.skip(f"EGL does not render here: {outside}")
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
            protection = Protection("landlock", False, None, None, None)
            confine(protection, scratch=Path("/"), readable=[], supervisor=0)
        except RuntimeError as exc:
            print(exc)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = "A process with several threads cannot be confined: only one would be.\n"
    assert (done.stdout, done.stderr) == (expected, "")


def test_a_worker_that_dies_before_it_asks():
    ours, theirs = socket.socketpair()
    theirs.close()
    supervisor.supervise(ours, os.getpid())
    assert ours.fileno() == -1


def test_what_starting_costs(mine):
    """Printed, not judged."""
    print(f"{mine.kind}: shutting in takes {1000 * mine.run('result = seconds'):.1f} ms")
    if mine.kind == "bubblewrap":
        idle = [sys.executable, "-S", "-c", ""]
        readable = filesystem.interpreter_paths()
        wrapped = wrap(idle, scratch=mine.scratch, readable=readable, network=False)
        plain, inside = (min(milliseconds(argv) for _ in range(5)) for argv in (idle, wrapped))
        print(f"bubblewrap: starting Python takes {inside:.1f} ms, without {plain:.1f} ms")


def milliseconds(argv: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(argv, check=True)
    return 1000 * (time.perf_counter() - begin)


def fake_tool(directory: Path, script: str) -> str:
    tool = directory / "bwrap"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return str(directory)


class TestChoosing:
    def ask(self, wanted: str, path: str) -> list[str]:
        """What is chosen with other tools, in a process of its own: answers are kept."""
        code = f"""if True:
            from envhub.errors import SandboxUnavailable
            from envhub.sandbox.choose import choose
            try:
                print(choose({wanted!r}), choose({wanted!r}))
            except SandboxUnavailable as exc:
                print(exc.exit_code, exc.wanted, sorted(exc.problems))
                print(exc)
        """
        variables = {**os.environ, "PATH": path}
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    def test_what_works_is_taken(self, kind):
        try:
            assert choose(kind) == kind
        except SandboxUnavailable as exc:
            pytest.skip(str(exc))

    def test_what_has_worked_is_not_tried_again(self, directory, monkeypatch):
        """Until something changes, here the tool itself."""
        if trouble("bubblewrap"):
            pytest.skip("bubblewrap does not work here")
        monkeypatch.setenv("ENVHUB_HOME", str(directory / "home"))
        calls, real = directory / "calls", shutil.which("bwrap")
        path = fake_tool(directory, f'echo >> {calls}\nexec {real} "$@"')
        for count in (2, 2):  # its help, and a trial
            assert self.ask("auto", path) == ["bubblewrap bubblewrap"]
            assert len(calls.read_text().splitlines()) == count
        fake_tool(directory, f'echo >> {calls}\nexec {real} "$@"\n')
        assert self.ask("auto", path) == ["bubblewrap bubblewrap"]
        assert len(calls.read_text().splitlines()) == 4
        fake_tool(directory, "exit 1")
        assert self.ask("auto", path)[0].startswith(("landlock", "2 auto"))

    def test_what_works_no_more_is_tried_again(self, directory, monkeypatch):
        if trouble("bubblewrap"):
            pytest.skip("bubblewrap does not work here")
        monkeypatch.setenv("ENVHUB_HOME", str(directory / "home"))
        assert self.ask("bubblewrap", os.environ["PATH"]) == ["bubblewrap bubblewrap"]
        (kept,) = (directory / "home").iterdir()
        worker = Worker("", confined_spec(Confinement("bubblewrap", False, ("/nowhere",))))
        worker.ask(Call(1, "x", [], {}), 10.0, "call")
        assert isinstance(worker.wait(), WorkerDied)
        assert not kept.exists()

    def test_none_is_never_chosen_unasked(self):
        assert choose("none") == "none"
        assert choose("auto") in ("bubblewrap", "landlock")

    def test_a_missing_one_is_an_error(self, directory):
        head, text = self.ask("bubblewrap", str(directory))
        assert head == "2 bubblewrap ['bubblewrap']"
        assert text.startswith(
            "The sandbox 'bubblewrap' does not work here: bubblewrap: bwrap is not on PATH. "
        )
        assert "--sandbox none" in text

    def test_one_that_cannot_shut_in_is_an_error(self, directory):
        script = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1"
        _, text = self.ask("bubblewrap", fake_tool(directory, script))
        assert "bubblewrap: bwrap: No permissions to create new namespace. " in text
        _, text = self.ask("bubblewrap", fake_tool(directory, "exit 3"))
        assert "bubblewrap: bwrap ended with exit code 3. " in text

    def test_auto_then_takes_the_other(self, directory):
        if landlock.version()[0] < 1:
            pytest.skip("no Landlock in this kernel")
        assert self.ask("auto", fake_tool(directory, "exit 3")) == ["landlock landlock"]

    def test_it_is_tried_once(self, directory):
        path = fake_tool(directory, f"echo x >> {directory}/tries; exit 3")
        self.ask("auto", path)
        # its options, and one start
        assert (directory / "tries").read_text() == "x\nx\n"

    def test_nothing_works(self):
        exc = SandboxUnavailable("auto", {"bubblewrap": "a", "landlock": "b"})
        assert str(exc).startswith("No sandbox works here: bubblewrap: a; landlock: b. ")
        assert exc.problems == {"bubblewrap": "a", "landlock": "b"}


class TestProtection:
    def test_what_a_run_records(self):
        assert protect("none", network=False, memory_mb=64).to_json() == {
            "sandbox": "none", "network": True, "memory_mb": None, "processes": None,
            "file_mb": None,
        }  # fmt: skip

    def test_of_a_sandbox(self, kind):
        protection = protect(kind, network=False, memory_mb=64)
        most = supervisor.processes()
        assert protection == Protection(kind, False, 64, most, sandbox_inside.FILE_MB)
        assert Protection(**protection.to_json()) == protection


class TestCommand:
    NONE = Protection("none", True, None, None, None)
    LANDLOCK = Protection("landlock", False, None, None, None)
    BUBBLEWRAP = Protection("bubblewrap", False, None, None, None)

    def test_only_bubblewrap_changes_it(self, tmp_path):
        for protection in (self.NONE, self.LANDLOCK):
            argv = command(protection, ("a", "b"), scratch=tmp_path, readable=[])
            assert argv == ["a", "b"]

    @pytest.mark.parametrize("protection", [LANDLOCK, BUBBLEWRAP])
    def test_no_directory_that_holds_the_home(self, protection, tmp_path, monkeypatch):
        home = tmp_path / "home" / "me"
        home.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        (tmp_path / "link").symlink_to(home)
        for path in (home, home.parent, Path("/"), tmp_path / "link"):
            with pytest.raises(HomeExposed) as caught:
                command(protection, ["x"], scratch=tmp_path / "scratch", readable=[path])
            assert caught.value.path == path
            assert f"show {path} to foreign code" in str(caught.value)

    def test_an_old_bubblewrap(self, directory):
        """Without bounds on their size, common directories stay read-only."""
        code = """if True:
            from pathlib import Path
            from envhub.sandbox.bubblewrap import wrap
            print(*wrap(["x"], scratch=Path("/s"), readable=[], network=True))
        """
        path = fake_tool(directory, "echo --unshare-user")
        variables = {**os.environ, "PATH": path}
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
        )
        assert "--dir /tmp --dir /dev/shm" in done.stdout
        for option in ("--size", "--tmpfs", "--disable-userns", "--unshare-net"):
            assert option not in done.stdout
