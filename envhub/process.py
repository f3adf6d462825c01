"""Start processes: the only place that does.

`run` is for tools that answer and end. `spawn` is for workers: the child dies with this process by
the parent-death signal that `envhub.worker.guard` sets. The kernel sends that signal when the
spawning *thread* ends, so all children are spawned from one thread that lives as long as this
process.
"""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

_GRACE = 2.0
"""Seconds that a child's guard has to end its descendants before its group is killed."""
GUARDED = (signal.SIGCHLD, signal.SIGTERM)
"""The signals that a child's guard waits for; blocked from the start until it does."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""The error numbers that mean too few descriptors, too many processes or too little memory."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit status and the output of a tool."""

    code: int
    """The exit status; negative for a signal."""
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class FinishedBytes:
    """The exit status and the output of a tool that writes bytes."""

    code: int
    stdout: bytes
    stderr: bytes


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Finished | None:
    """Run a tool to its end, without standard input.

    Returns:
        The exit status and the output; None if the tool cannot be started, or did not end within
        `timeout` seconds and was killed together with the processes it started.

    Raises:
        OSError: The machine's limits leave no room for another process, see `EXHAUSTED`.
    """
    done = run_bytes(argv, b"", timeout=timeout, env=env, cwd=cwd)
    if done is None:
        return None
    return Finished(done.code, _text(done.stdout), _text(done.stderr))


def run_bytes(
    argv: Sequence[str | Path],
    stdin: bytes,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> FinishedBytes | None:
    """Run a tool that reads and writes bytes to its end; otherwise like `run`."""
    try:
        tool = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as exc:
        if exc.errno in EXHAUSTED:
            raise
        return None
    with tool:
        try:
            stdout, stderr = tool.communicate(stdin or None, timeout=timeout)
        except BaseException as exc:
            _kill_group(tool.pid)
            if isinstance(exc, subprocess.TimeoutExpired):
                return None
            raise
    return FinishedBytes(tool.returncode, stdout, stderr)


def run_lines(
    argv: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Finished | None:
    """Run a tool to its end, and pass on each line of its standard error as it comes.

    Otherwise like `run`; the standard output is not kept.
    """
    try:
        tool = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError:
        return None
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill_group(tool.pid)

    timer = threading.Timer(timeout, end)
    timer.start()
    lines: list[str] = []
    with tool:
        assert tool.stderr is not None
        try:
            for line in map(_text, tool.stderr):
                lines.append(line)
                on_line(line)
            tool.wait()
        except BaseException:
            _kill_group(tool.pid)
            raise
        finally:
            timer.cancel()
    return None if late.is_set() else Finished(tool.returncode, "", "".join(lines))


def _text(output: bytes) -> str:
    """Decode a tool's output, with any kind of line ends."""
    return output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def restart(variables: Mapping[str, str]) -> NoReturn:
    """Begin this process anew, with the same command line and more environment variables."""
    argv = [sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, argv, {**os.environ, **variables})  # noqa: S606


class Child:
    """A long-lived child process, with a descriptor that becomes readable when it ends."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.pid = popen.pid
        self.pidfd = os.pidfd_open(popen.pid)

    def poll(self) -> int | None:
        """Return the exit status if the child has ended, else None."""
        return self._popen.poll()

    def end(self) -> int:
        """End the child and everything it started, reap it, and close the descriptor.

        The guard in the child gets the chance to end all descendants; then the process group is
        killed. May be called again.
        """
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(_GRACE)
            except subprocess.TimeoutExpired:
                _kill_group(self.pid)
        return self._reap()

    def wait(self, timeout: float) -> bool:
        """Wait for the child to end by itself; return whether it did."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _reap(self) -> int:
        code = self._popen.wait()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return code


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    output: int,
    pass_fds: Sequence[int],
) -> Child:
    """Start a long-lived child in a session of its own, with its output going to a descriptor.

    The signals `GUARDED` are blocked in the child.
    """

    def start() -> Child:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, GUARDED)
        try:
            popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                cwd=cwd,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            return Child(popen)
        except OSError:  # no file descriptor is available
            popen.terminate()
            popen.wait()
            raise

    return _spawner().call(start)


def describe_exit(code: int) -> str:
    """Put an exit status into words."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"was killed by signal {number}" if code < 0 else f"ended with exit code {code}"
    hint = ", most likely because the machine ran out of memory" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def describe_exhaustion(error: OSError) -> str | None:
    """Put an error into words that means that a limit of this machine is reached; None: another."""
    match error.errno:
        case errno.EMFILE:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return (
                f"A process may open {limit} files here, which is too few. Raise the limit, e.g. "
                "with ulimit -n 4096, or use fewer workers."
            )
        case errno.ENFILE:
            return "Too many files are open on this machine. Close other programs and try again."
        case errno.EAGAIN:
            return (
                "No further process can be started. Raise the limit with ulimit -u, end other "
                "programs or use fewer workers."
            )
        case errno.ENOMEM:
            return "The machine is out of memory. End other programs or use fewer workers."
        case errno.EFBIG if (most := resource.getrlimit(resource.RLIMIT_FSIZE)[0]) >= 0:
            return (
                f"A file may have {most:,} bytes here, which is too little. Raise the limit, e.g. "
                "with ulimit -f unlimited."
            )
        case errno.ENOSPC | errno.EDQUOT:
            place = f" for {error.filename}" if error.filename else ""
            return f"No space is left{place}. Free some space and try again."
    return None


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


class _Spawner:
    """A thread that starts children and outlives them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._queue: SimpleQueue[tuple[Callable[[], Child], Future[Child]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="envhub-spawner", daemon=True).start()

    def call(self, start: Callable[[], Child]) -> Child:
        future: Future[Child] = Future()
        self._queue.put((start, future))
        return future.result()

    def _serve(self) -> None:
        while True:
            start, future = self._queue.get()
            try:
                future.set_result(start())
            except BaseException as exc:  # noqa: BLE001, RUF100 - handed to the caller
                future.set_exception(exc)


_current: _Spawner | None = None
_lock = threading.Lock()


def _spawner() -> _Spawner:
    """Return the spawner of this process: threads do not survive a fork."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = _Spawner()
        return _current
