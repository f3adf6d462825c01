"""What a sandbox shows, for interpreters in all sorts of places."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.sandboxes import ROOT

import envhub
from envhub.directories import locked
from envhub.sandbox import filesystem

PACKAGE = Path(envhub.__file__).parent


def venv(directory: Path, home: Path) -> Path:
    """A virtual environment on an interpreter that is found through links."""
    for part in ("base/bin", "base/lib/python3.11", "links"):
        (directory / part).mkdir(parents=True)
    (directory / "base/bin/python3").write_text("")
    (directory / "links/python3").symlink_to(directory / "base/bin/python3")
    (home / "bin").mkdir(parents=True)
    (home / "lib/python3.11").mkdir(parents=True)
    (home / "bin/python").symlink_to("../../links/python3")
    (home / "pyvenv.cfg").write_text(f"home = {directory}/base/bin\nversion = 3.11\n")
    return home / "bin/python"


def test_another_interpreter(tmp_path):
    python = venv(tmp_path, tmp_path / "venv")
    found = set(filesystem.interpreter_paths(python))
    of_venv = {tmp_path / "venv" / name for name in ("bin", "lib", "pyvenv.cfg")}
    of_base = {tmp_path / "base" / name for name in ("bin", "lib")}
    assert found == {*of_venv, *of_base, tmp_path / "links/python3", PACKAGE}


def test_only_what_is_an_interpreters_own_is_shown_of_its_directory(tmp_path):
    """Not what people keep beside it: settings with passwords, other environments, a project."""
    python = venv(tmp_path, tmp_path / "venv")
    needed = (
        "share/data", "include/python3.11/Python.h", "etc/fonts/fonts.conf", "ssl/cert.pem",
        "nvvm/libdevice/libdevice.10.bc", "x86_64-conda-linux-gnu/sysroot/lib",
    )  # fmt: skip
    for prefix in ("venv", "base"):
        for name in (*needed, *SECRETS):
            (tmp_path / prefix / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / prefix / name).touch()
    (tmp_path / "private").mkdir()
    (tmp_path / "venv/libexec").symlink_to(tmp_path / "private")
    (tmp_path / "venv/lib64").symlink_to("lib")
    shown = filesystem.interpreter_paths(python)
    assert not is_shown(tmp_path / "private", shown)
    assert tmp_path / "venv/lib64" in shown
    for prefix in ("venv", "base"):
        hidden = [name for name in SECRETS if is_shown(tmp_path / prefix / name, shown)]
        assert hidden == []
        assert all(is_shown(tmp_path / prefix / name, shown) for name in needed)


SECRETS = (
    "pip.conf", "uv.toml", ".netrc", "_netrc", ".pypirc", ".condarc", "condarc", ".condarc.d/a.yml",
    "etc/pip.conf", "etc/conda/activate.d/token.sh", "etc/xdg/pip/pip.conf", "conda-meta/history",
    "envs/other/pip.conf", "pkgs/urls.txt", ".env", "project.py", "ssl/private/key.pem",
)  # fmt: skip


def is_shown(path: Path, shown: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(above) for above in shown)


def test_settings_beside_the_systems_programs(tmp_path):
    for name in ("bin/tool", "lib/library.so", "local/cuda/lib/library.so", "local/bin/tool"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "local/etc").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "local/settings").symlink_to("etc")
    assert list(filesystem.shown_of_system(tmp_path)) == [tmp_path]
    for name in ("pip.conf", ".netrc", "local/pip.conf", "local/etc/gitconfig"):
        (tmp_path / name).touch()
        shown = tuple(filesystem.shown_of_system(tmp_path))
        assert tmp_path / "lib64" in shown
        assert (tmp_path / "local/settings" in shown) == (name != "local/etc/gitconfig")
        assert not is_shown(tmp_path / name, shown)
        for kept in ("bin/tool", "lib/library.so", "local/cuda/lib/library.so", "local/bin/tool"):
            assert is_shown(tmp_path / kept, shown)
        (tmp_path / name).unlink()


def test_one_in_the_home_itself(tmp_path, monkeypatch):
    home = tmp_path / "home"
    python = venv(tmp_path, home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:{tmp_path}/base:relative:")
    assert set(filesystem.interpreter_paths(python)) == {
        home / "pyvenv.cfg", home / "lib/python3.11", python, tmp_path / "links/python3",
        tmp_path / "base", PACKAGE,
    }  # fmt: skip


def test_one_without_an_environment(tmp_path):
    (tmp_path / "opt/bin").mkdir(parents=True)
    python = tmp_path / "opt/bin/python3"
    python.write_text("")
    assert set(filesystem.interpreter_paths(python)) == {tmp_path / "opt/bin", PACKAGE}


def test_directories_of_packages_on_the_path(tmp_path, monkeypatch):
    """A user's own code that lies on the path too is not shown."""
    for name in ("target/msgspec", "site-packages", "project/mine"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("target", "site-packages", "project"):
        monkeypatch.syspath_prepend(tmp_path / name)
    shown = {path for path in filesystem.interpreter_paths() if path.is_relative_to(tmp_path)}
    assert shown == {tmp_path / "target", tmp_path / "site-packages"}


def test_this_one():
    found = filesystem.interpreter_paths()
    for path in (sys.executable, os.__file__, pytest.__file__, envhub.__file__):
        shown = (*filesystem.ROOTS, *found)
        assert any(Path(path).is_relative_to(above) for above in shown), path
        assert any(Path(path).resolve().is_relative_to(above) for above in shown), path
    assert not any(filesystem.holds_home(path) for path in found)


def test_apart(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    paths = [tmp_path / "a/b", tmp_path / "a", tmp_path / "link/b", Path("/usr/lib")]
    assert filesystem.apart(paths) == [tmp_path / "a", tmp_path / "link/b"]


def below(path: Path, directory: str) -> bool:
    return path.is_relative_to(directory) and path != Path(directory)


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
        found = sandbox.run(program, given=paths)
        assert isinstance(found, list), found
        *secrets, own = found
        assert set(secrets) <= {"FileNotFoundError", "PermissionError"}, secrets
        assert own.startswith("home = ")

    def test_locks_beside_what_is_shown(self, sandbox):
        """Whoever held one would keep every command from building that directory."""
        with locked(sandbox.shown):
            pass
        lock = sandbox.shown.parent / ".shown.lock"
        assert lock.exists()
        program = """if True:
            import fcntl
            result = attempt(lambda: fcntl.flock(open(given), fcntl.LOCK_EX | fcntl.LOCK_NB))
        """
        answer = sandbox.run(program, given=str(lock))
        assert answer in ("FileNotFoundError", "PermissionError")

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
        homes = ["/root", "/home", "/var", "/var/log", "/boot", "/run"]
        directories = ["/etc", "/sys", "/", *homes]
        files = ["/etc/shadow", "/etc/hostname", "/etc/machine-id", "/dev/kmsg", "/dev/tty"]
        answer = sandbox.run(program, given={"directories": directories, "files": files})
        if sandbox.kind == "bubblewrap":
            # What is shown of them lies in otherwise empty directories.
            assert set(answer.pop("/etc")) <= {*os.listdir("/etc")} - {"shadow", "hostname", "ssh"}
            assert set(answer.pop("/")) >= {"dev", "etc", "proc", "sys", "tmp", "usr"}
            assert set(answer.pop("/sys")) == {"devices", "kernel"} or filesystem.gpus()
            shown = (*filesystem.interpreter_paths(Path(sandbox.python)), sandbox.scratch)
            for directory in homes:
                if way := {p.relative_to(directory).parts[0] for p in shown if below(p, directory)}:
                    assert set(answer.pop(directory)) <= way, directory
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
