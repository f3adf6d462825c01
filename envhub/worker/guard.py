"""The guards of a worker: its parents, which end everything that the worker started.

A worker process forks before it loads anything. The parent stays as its guard and only waits: for
the worker's end, or for the signal that comes when the host has ended or wants the worker gone. It
is a subreaper, so that processes which an env started and abandoned become its children, and are
killed. It removes the worker's scratch directory at the end. For a worker in a sandbox it also
limits the number of processes and their total memory.

A worker has two guards, because one may be killed: the outer one, a child of the host, and the
inner one, the worker's parent. The processes of a guard that is killed are adopted by the other
one, which ends them. In bubblewrap there is only the outer guard, because all processes of a
namespace end with its first one.

They import little, neither pathlib nor typing, because their start-up time is part of every
worker's; and everything before they wait.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable

from envhub.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""The signals that a guard waits for. `process.spawn` blocks them, so that none comes too early."""
_PERIOD = 0.5
"""Seconds between two checks of the memory of a worker in a sandbox."""
_GRACE = 1.0
"""Seconds that an inner guard has to end its worker; less than the host gives the outer one."""


def stand_guards(host_pid: int, scratch: str, name: bytes) -> None:
    """Fork a worker and guard it. Returns in the worker; its two guards never return.

    Args:
        host_pid: The process that the guards end with.
        scratch: The directory to remove at the end; empty: none.
        name: What `ps` calls the worker.
    """
    outer_pid = _stand_guard(host_pid, scratch, over_guard=True)
    os.setpgid(0, 0)  # so that the inner guard does not belong to the process group of the outer
    stand_inner_guard(outer_pid, scratch, name)


def stand_inner_guard(outer_pid: int, scratch: str, name: bytes) -> None:
    """Fork a worker and guard it. Returns in the worker; its inner guard never returns.

    Args:
        outer_pid: The outer guard, which the inner one ends with.
        scratch: The directory to remove at the end; empty: none.
        name: What `ps` calls the worker.
    """
    guard_pid = _stand_guard(outer_pid, scratch, over_guard=False)
    enter_worker(name)
    if os.getppid() != guard_pid:
        os._exit(1)
    os.setpgid(0, 0)


def _stand_guard(parent_pid: int, scratch: str, *, over_guard: bool) -> int:
    """Fork, and stay as the guard of the new process; return the guard's pid in that process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if not _bind_to_parent(parent_pid):
        remove_tree(scratch)
        os._exit(1)
    guard_pid = os.getpid()
    guarded_pid = os.fork()
    if guarded_pid != 0:
        os.chdir("/")  # not where the worker writes
        _close_descriptors(keep=-1)
        _wait(guarded_pid, scratch, over_guard=over_guard)
    return guard_pid


def main(arguments: list[str]) -> "NoReturn":
    """Be the outer guard of a worker in a sandbox, which is started by this process already.

    Args:
        arguments: The host's pid, the scratch directory, the descriptor of the guard's end of the
            supervisor's socket, the memory limit in MB or an empty text, an empty text unless
            the worker has an inner guard, and the pid of the child: `bwrap` or the inner guard.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # some shells unblock them
    host_pid, scratch, supervisor, memory_mb, inner, worker_pid = arguments
    if not _bind_to_parent(int(host_pid)):
        _end_descendants(int(worker_pid))
        remove_tree(scratch)
        os._exit(1)
    _close_descriptors(keep=int(supervisor))
    limit = int(memory_mb) if memory_mb else None
    too_much = _supervise(int(supervisor), int(worker_pid), limit)
    _wait(int(worker_pid), scratch, too_much, over_guard=bool(inner))


def enter_worker(name: bytes) -> None:
    """Set up the signals and the name of a new worker, and let it die with its guard."""
    prctl(_PR_SET_NAME, name)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _bind_to_parent(parent_pid: int) -> bool:
    """Let this process end with its parent, and return whether the parent is still alive."""
    prctl(_PR_SET_NAME, b"envhub-guard")  # not "python", for those who look with `ps` or `top`
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host handles Ctrl-C
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent_pid


def _wait(
    worker_pid: int,
    scratch: str,
    too_much: Callable[[], bool] | None = None,
    *,
    over_guard: bool,
) -> "NoReturn":
    """Wait for the end of the worker or of its inner guard, or for the signal to end it."""
    code = 128 + signal.SIGTERM
    status: int | None = None
    while status is None:
        if too_much is None:
            received = signal.sigwait(SIGNALS)
        else:
            info = signal.sigtimedwait(SIGNALS, _PERIOD)
            received = info.si_signo if info else 0
        if received == signal.SIGTERM:
            break
        status = _reap(worker_pid)
        if status is None and not received and too_much is not None and too_much():
            code = 128 + signal.SIGKILL  # as if the kernel had ended it
            break
    if over_guard and status is None:
        _end_guard(worker_pid)
    _end_descendants(worker_pid)
    remove_tree(scratch)
    os._exit(code if status is None else status)


def _supervise(descriptor: int, root: int, memory_mb: int | None) -> Callable[[], bool]:
    """Answer the worker's requests for new processes, in a thread.

    Returns:
        A function that checks whether the worker uses too much memory.
    """
    # Imported here, because only the guard of a worker in a sandbox needs them.
    import socket
    import threading

    from envhub.sandbox import supervisor

    connection = socket.socket(fileno=descriptor)
    threading.Thread(target=supervisor.supervise, args=(connection, root), daemon=True).start()
    return lambda: memory_mb is not None and supervisor.too_much_memory(root, memory_mb)


def _reap(worker_pid: int) -> int | None:
    """Reap all children that have ended.

    Returns:
        The worker's exit status as a shell reports it, or None while the worker lives.
    """
    status: int | None = None
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # no child is left: the shell may have reaped the worker
            return 1 if status is None else status
        if pid == 0:
            return status
        if pid == worker_pid:
            code = os.waitstatus_to_exitcode(raw)
            status = code if code >= 0 else 128 - code


def _end_guard(inner_pid: int) -> None:
    """Let the inner guard end its worker.

    It is not killed, because the outer guard may be killed in the next moment: then neither would
    be left.
    """
    deadline = time.monotonic() + _GRACE
    try:
        os.kill(inner_pid, signal.SIGTERM)
        while os.waitpid(inner_pid, os.WNOHANG) == (0, 0):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            signal.sigtimedwait((signal.SIGCHLD,), left)
    except (ProcessLookupError, ChildProcessError):  # it has ended already
        return


def _end_descendants(worker_pid: int) -> None:
    """Kill the worker's process group, then all children, also those adopted meanwhile."""
    _kill(-worker_pid)
    while True:
        for pid in _children():
            _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    _end_session()


def _end_session() -> None:
    """Kill what is left of the session that began with this process, if one did.

    In the first moments of a worker in a sandbox a process may lose its parent before this guard
    can adopt it. It has not run foreign code yet, so it is still in the guard's session.
    """
    guard_pid = os.getpid()
    for _ in range(2):  # one may fork meanwhile
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != guard_pid and _session_of(int(name)) == guard_pid:
                _kill(int(name))


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:  # it has ended
        return -1


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return [int(part) for part in file.read().split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _close_descriptors(keep: int) -> None:
    """Close all descriptors but one: the host must notice when the worker's sockets close."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    os.closerange(3, max(3, keep))
    os.closerange(max(2, keep) + 1, highest + 1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def prctl(option: int, value: int | bytes) -> None:
    """Call `prctl(2)`."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
