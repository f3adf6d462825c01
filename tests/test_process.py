"""Real processes: tools that answer or do not, children that end or have to be ended."""

import errno
import os
import re
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.processes import alive, wait_until

from envhub.process import (
    Finished,
    describe_exhaustion,
    describe_exit,
    run,
    run_lines,
    spawn,
)

LONG = 60.0
"""A limit that nothing here reaches."""


class TestRun:
    @pytest.mark.parametrize(
        ("script", "finished"),
        [
            ("echo out; echo err >&2", Finished(0, "out\n", "err\n")),
            ("exit 7", Finished(7, "", "")),
            ("kill -SEGV $$", Finished(-11, "", "")),
            ("cat", Finished(0, "", "")),
            (r"printf '\377'", Finished(0, "\N{REPLACEMENT CHARACTER}", "")),
        ],
    )
    def test_an_end(self, script, finished):
        assert run(["sh", "-c", script], timeout=LONG) == finished

    def test_more_output_than_a_pipe_holds(self):
        done = run(["head", "-c", "1000000", "/dev/zero"], timeout=LONG)
        assert done == Finished(0, "\0" * 1_000_000, "")

    def test_where_and_with_what(self, tmp_path):
        variables = {"PATH": os.environ["PATH"], "A": "b"}
        done = run(["sh", "-c", "pwd; echo $A$HOME"], timeout=LONG, env=variables, cwd=tmp_path)
        assert done == Finished(0, f"{tmp_path}\nb\n", "")

    def test_a_path_is_an_argument_too(self, tmp_path):
        (tmp_path / "file").write_text("text")
        assert run([Path("/bin/cat"), tmp_path / "file"], timeout=LONG) == Finished(0, "text", "")

    def test_no_such_tool(self, tmp_path):
        assert run(["no-such-tool"], timeout=LONG) is None
        assert run([tmp_path], timeout=LONG) is None
        assert run(["true"], timeout=LONG, cwd=tmp_path / "nowhere") is None

    def test_a_tool_that_is_no_program(self, tmp_path):
        tool = tmp_path / "tool"
        tool.write_bytes(b"\x00\x01\x02\x03")
        tool.chmod(0o755)
        assert run([tool], timeout=LONG) is None

    def test_lines_as_they_come(self, tmp_path):
        """The second line is written only once the first one was seen."""
        seen = []

        def on_line(line: str) -> None:
            seen.append(line)
            (tmp_path / "seen").touch()

        script = (
            f"echo 1 >&2; until [ -e {tmp_path}/seen ]; do sleep 0.01; done; echo 2 >&2; exit 3"
        )
        done = run_lines(["sh", "-c", script], on_line, timeout=LONG)
        assert (done, seen) == (Finished(3, "", "1\n2\n"), ["1\n", "2\n"])
        assert run_lines(["no-such-tool"], on_line, timeout=LONG) is None
        assert run_lines(["sh", "-c", "sleep 1000 & wait"], on_line, timeout=0.1) is None

    def test_one_that_does_not_end(self, tmp_path):
        file = tmp_path / "pids"
        script = f"sleep 1000 & echo $$ $! > {file}; wait"
        assert run(["sh", "-c", script], timeout=1.0) is None
        pids = file.read_text().split()
        assert len(pids) == 2
        wait_until(lambda: not any(alive(int(pid)) for pid in pids))

    def test_one_that_ends_but_leaves_somebody_with_its_output(self, tmp_path):
        file = tmp_path / "pid"
        assert run(["sh", "-c", f"sleep 1000 & echo $! > {file}"], timeout=1.0) is None
        wait_until(lambda: not alive(int(file.read_text())))


@pytest.fixture
def children():
    """Spawns; whatever is left at the end is ended."""
    started = []

    def start(*argv: str, output: int = 2, pass_fds=(), env=None, cwd: Path = Path("/")):
        variables = {"PATH": os.environ["PATH"]} if env is None else env
        child = spawn(argv, env=variables, cwd=cwd, output=output, pass_fds=pass_fds)
        started.append(child)
        return child

    yield start
    for child in started:
        child.end()


class TestSpawn:
    def test_what_a_child_gets(self, children, tmp_path):
        read, write = os.pipe()
        extra_read, extra_write = os.pipe()
        script = f"pwd; env | grep ^A; cat; echo oops >&2; echo more >/dev/fd/{extra_write}"
        variables = {"PATH": os.environ["PATH"], "A": "1"}
        child = children(
            "sh", "-c", script, output=write, pass_fds=(extra_write,), env=variables, cwd=tmp_path
        )
        os.close(write)
        os.close(extra_write)
        with os.fdopen(read) as output, os.fdopen(extra_read) as extra:
            assert output.read() == f"{tmp_path}\nA=1\noops\n"
            assert extra.read() == "more\n"
        assert child.wait(LONG)
        assert child.poll() == 0

    def test_a_session_of_its_own(self, children):
        child = children("sleep", "1000")
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid

    def test_what_cannot_be_started(self, tmp_path):
        for argv, cwd in ((["no-such-tool"], tmp_path), (["true"], tmp_path / "nowhere")):
            with pytest.raises(FileNotFoundError):
                spawn(argv, env={}, cwd=cwd, output=2, pass_fds=())

    def test_a_child_outlives_the_thread_that_asked_for_it(self, children, tmp_path):
        """The signal that binds a child to its parent is sent when the parent's thread ends."""
        ready = tmp_path / "ready"
        bound = (
            "import ctypes, pathlib, time; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
            f"pathlib.Path({str(ready)!r}).touch(); time.sleep(1000)"
        )
        found = []
        asking = threading.Thread(
            target=lambda: found.append(children(sys.executable, "-c", bound))
        )
        asking.start()
        asking.join()
        wait_until(ready.exists)
        assert not found[0].wait(0.2)

    def test_after_a_fork(self):
        code = """if True:
            import os
            from pathlib import Path
            from envhub.process import spawn

            def start():
                child = spawn(["true"], env={}, cwd=Path("/"), output=2, pass_fds=())
                return child.wait(60.0) and child.end() == 0

            assert start()
            pid = os.fork()
            if pid == 0:
                os._exit(0 if start() else 1)
            assert os.waitpid(pid, 0)[1] == 0
        """
        # From 3.12 on Python warns of forks beside other threads, like the one that spawns here.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


LISTENING = """if True:
    import signal, time
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    time.sleep(1000)
"""


class TestChild:
    def test_end(self, children):
        child = children(sys.executable, "-c", LISTENING)
        assert child.poll() is None
        assert not child.wait(0.0)
        assert child.end() == -signal.SIGTERM
        assert not alive(child.pid)

    def test_end_is_harmless_when_repeated(self, children):
        child = children("sh", "-c", "exit 3")
        assert child.wait(LONG)
        assert child.pidfd >= 0
        assert [child.end(), child.end(), child.poll()] == [3, 3, 3]
        assert child.pidfd == -1

    def test_one_that_does_not_listen(self, children, tmp_path):
        file = tmp_path / "pid"
        script = f"trap '' TERM; sleep 1000 & echo $! > {file}.new; mv {file}.new {file}; wait"
        child = children("sh", "-c", script)
        wait_until(file.exists)
        assert child.end() == -signal.SIGKILL
        wait_until(lambda: not alive(int(file.read_text())))

    def test_the_descriptor_tells_of_its_end(self, children):
        child = children("sleep", "1000")
        assert select.select([child.pidfd], [], [], 0.0)[0] == []
        os.kill(child.pid, signal.SIGKILL)
        assert select.select([child.pidfd], [], [], LONG)[0] == [child.pidfd]
        assert child.poll() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (3, "ended with exit code 3"),
        (128, "ended with exit code 128"),
        (255, "ended with exit code 255"),
        (-6, "was killed by SIGABRT"),
        (-9, "was killed by SIGKILL, most likely because the machine ran out of memory"),
        (137, "was killed by SIGKILL, most likely because the machine ran out of memory"),
        (-11, "was killed by SIGSEGV"),
        (139, "was killed by SIGSEGV"),
        (143, "was killed by SIGTERM"),
        (-40, "was killed by signal 40"),
        (168, "ended with exit code 168"),
    ],
)
def test_describe_exit(code, words):
    assert describe_exit(code) == words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "x"), "A process may open [0-9]+ files here, .* ulimit -n 4096, .*"),
        (OSError(errno.ENFILE, "x"), "Too many files are open on this machine. .*"),
        (OSError(errno.EAGAIN, "x"), "No further process can be started. .* ulimit -u, .*"),
        (OSError(errno.ENOMEM, "x"), "The machine is out of memory. .*"),
        (OSError(errno.ENOSPC, "x", "/a/b"), "No space is left for /a/b. Free some .*"),
        (OSError(errno.EDQUOT, "x"), "No space is left. Free some .*"),
    ],
)
def test_describe_exhaustion(error, words):
    said = describe_exhaustion(error)
    assert said is not None
    assert re.fullmatch(words, said)
    assert describe_exhaustion(OSError(errno.ENOENT, "x")) is None


def test_a_limit_on_the_size_of_files():
    code = """if True:
        import errno, resource
        from envhub.process import describe_exhaustion
        from envhub.wire.memory import make_memory
        print(describe_exhaustion(OSError(errno.EFBIG, "of another kind")))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            make_memory(8192)
        except OSError as exc:
            print(describe_exhaustion(exc))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = "A file may have 4,096 bytes here, which is too little. Raise the limit, e.g. with "
    assert (done.stdout, done.stderr) == (f"None\n{said}ulimit -f unlimited.\n", "")


def test_a_tool_that_finds_no_descriptor_is_not_one_that_is_missing():
    code = """if True:
        import errno, os, resource
        from envhub.process import run
        resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))
        try:
            print(run(["true"], timeout=20))
        except OSError as exc:
            print(exc.errno == errno.EMFILE)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
