"""The guard of a worker: its parent process, which ends everything that the worker started.

A worker process forks before it loads anything. The parent stays as its guard and only waits: for
the worker's end, or for the signal that comes when the host has ended or wants the worker gone. It
is a subreaper, so that processes which an env started and abandoned become its children, and are
killed. It removes the worker's scratch directory at the end. For a worker in a sandbox it also
limits the number of processes and their total memory.

It imports little, neither pathlib nor typing, because its start-up time is part of every worker's.
"""

import ctypes
import os
import signal
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""The signals that a guard waits for. `process.spawn` blocks them, so that none comes too early."""
_PERIOD = 0.5
"""Seconds between two checks of the memory of a worker in a sandbox."""


def stand_guard(host_pid: int, scratch: str) -> None:
    """Fork a worker and guard it. Returns in the worker; the guard never returns.

    Args:
        host_pid: The process that the guard ends with.
        scratch: The directory to remove at the end; empty: none.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if not _bind_to_host(host_pid):
        _remove(scratch)
        os._exit(1)
    guard_pid = os.getpid()
    worker_pid = os.fork()
    if worker_pid == 0:
        enter_worker()
        if os.getppid() != guard_pid:
            os._exit(1)
        os.setpgid(0, 0)
        return
    os.chdir("/")  # not where the worker writes
    _close_descriptors(keep=-1)
    _wait(worker_pid, scratch)


def main(arguments: list[str]) -> "NoReturn":
    """Guard a worker in a sandbox, which is a child of this process already.

    Args:
        arguments: The host's pid, the scratch directory, the descriptor of the guard's end of the
            supervisor's socket, the memory limit in MB or an empty text, and the worker's pid.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # some shells unblock them
    host_pid, scratch, supervisor, memory_mb, worker_pid = arguments
    if not _bind_to_host(int(host_pid)):
        _end_descendants(int(worker_pid))
        _remove(scratch)
        os._exit(1)
    _close_descriptors(keep=int(supervisor))
    too_much = _supervise(int(supervisor), int(memory_mb) if memory_mb else None)
    _wait(int(worker_pid), scratch, too_much)


def enter_worker() -> None:
    """Set up the signals of a new worker, and let it die with its guard."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _bind_to_host(host_pid: int) -> bool:
    """Let this process end with the host, and return whether the host is still alive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host handles Ctrl-C
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == host_pid


def _wait(worker_pid: int, scratch: str, too_much: Callable[[], bool] | None = None) -> "NoReturn":
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
            status = 128 + signal.SIGKILL  # as if the kernel had ended it
    _end_descendants(worker_pid)
    _remove(scratch)
    os._exit(128 + signal.SIGTERM if status is None else status)


def _supervise(descriptor: int, memory_mb: int | None) -> Callable[[], bool]:
    """Answer the worker's requests for new processes, in a thread.

    Returns:
        A function that checks whether the worker uses too much memory.
    """
    # Imported here, because only the guard of a worker in a sandbox needs them.
    import socket
    import threading

    from envhub.sandbox import supervisor

    connection, me = socket.socket(fileno=descriptor), os.getpid()
    threading.Thread(target=supervisor.supervise, args=(connection, me), daemon=True).start()
    return lambda: memory_mb is not None and supervisor.too_much_memory(me, memory_mb)


def _remove(scratch: str) -> None:
    if not scratch:
        return
    try:
        os.rmdir(scratch)
    except OSError:  # the worker left files there
        from pathlib import Path

        from envhub.process import remove_tree

        remove_tree(Path(scratch))


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


def _end_descendants(worker_pid: int) -> None:
    """Kill the worker's process group, then all children, also those adopted meanwhile."""
    _kill(-worker_pid)
    while True:
        for pid in _children():
            _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
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
