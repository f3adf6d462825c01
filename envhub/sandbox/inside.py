"""The worker's side of a sandbox: it shuts itself in, before anything foreign is loaded.

Every worker in a sandbox imports this before it has any package but this one, so it imports little.
"""

import ctypes
import os
import resource
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from envhub.sandbox import landlock, seccomp

Kind = Literal["bubblewrap", "landlock", "none"]


@dataclass(frozen=True, slots=True)
class Protection:
    """What stands between foreign code and this machine, as a run records it."""

    sandbox: Kind
    network: bool
    """Whether the code can reach it."""
    memory_mb: int | None
    """Of all its processes together, and of each."""
    processes: int | None
    """Processes and threads."""
    file_mb: int | None

    def to_json(self) -> dict[str, str | int | bool | None]:
        """As it stands in a run's record."""
        return asdict(self)


def confine(
    protection: Protection,
    *,
    scratch: Path,
    readable: Sequence[Path],
    supervisor: int,
    abi: int = landlock.NEWEST,
) -> None:
    """Shut this process in, for good, before it loads anything foreign. It has one thread yet.

    Args:
        protection: What it is to be kept from.
        scratch: The directory that it may write to.
        readable: What it may read besides the system.
        supervisor: A socket whose other end `bounds.supervise` reads; closed here.
        abi: The version of Landlock to use if the kernel has it.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("A process with several threads cannot be shut in: only one would be.")
    limit(protection.memory_mb)
    _give_up_privileges()
    if protection.sandbox == "landlock":
        from envhub.sandbox import filesystem

        abi = min(abi, landlock.version()[0])
        landlock.restrict(
            readable=(
                *filesystem.ROOTS,
                *filesystem.system_files(network=protection.network),
                *filesystem.PROC,
                *readable,
            ),
            writable=(scratch,),
            devices=(*filesystem.DEVICES, *filesystem.gpus()),
            network=protection.network,
            abi=abi,
        )
        rules = seccomp.rules_beside_landlock(network=protection.network, abi=abi, pid=os.getpid())
    else:
        rules = seccomp.rules_in_namespaces(network=protection.network, root=os.getuid() == 0)
    listener = seccomp.install(rules)
    with socket.socket(fileno=supervisor) as connection:
        socket.send_fds(connection, [b"+"], [listener])
    os.close(listener)


_NO_NEW_PRIVS = 38

_CAPABILITIES = struct.pack("=Ii", 0x20080522, 0), bytes(24)
"""The header of version 3 for the caller, and no capability in any set."""


def _give_up_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.capset(*_CAPABILITIES) != 0:
        raise OSError(ctypes.get_errno(), "Privileges could not be given up")


FILE_MB = 2048
"""The size of one file."""

CPU_SECONDS = 7 * 24 * 3600
"""The time of one process. Requests have limits of their own; this ends what escapes them."""

_DESCRIPTORS = 4096

_MB = 2**20


def limit(memory_mb: int | None) -> None:
    """Take on the limits that the kernel keeps for each process. They pass to all it starts.

    Memory is bounded by `RLIMIT_DATA`: what a process has for itself to write on. `RLIMIT_AS` would
    also count what is only mapped: the sparse memory that observations cross in, the address space
    that CUDA and LLVM reserve.

    Args:
        memory_mb: The private memory of one process; None leaves it unbounded.
    """
    bounds = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_MB * _MB),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
    ]
    if memory_mb is not None:
        bounds.append((resource.RLIMIT_DATA, memory_mb * _MB))
    for kind, bound in bounds:
        _, hard = resource.getrlimit(kind)
        lowest = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (lowest, lowest))
