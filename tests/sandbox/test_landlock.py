"""What Landlock guards, as older kernels have it too, beside what bubblewrap does."""

import os
import time

from support.sandboxes import abis


@abis(1, 2, 3)
def test_changing_what_is_shown(sandbox, abi):
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
def test_the_scratch_directory_is_an_ordinary_one(sandbox, abi):
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


@abis(1, 5)
def test_signals(sandbox, abi):
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


@abis(1)
def test_a_signal_to_itself(sandbox, abi):
    program = """if True:
        import os, signal
        caught = []
        signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        result = len(caught)
    """
    assert sandbox.run(program, abi=abi) == 2
