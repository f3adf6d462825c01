"""The worker's side of a sandbox: it confines itself before it loads foreign code.

With bubblewrap, the worker is in its namespaces already and adds the limits and the filter; with
Landlock, it also gives up its access to files. Every worker in a sandbox imports this module before
any package but EnvHub is available, so it imports little.
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

FILE_MB = 2048
"""The largest file that a process may write."""
CPU_SECONDS = 7 * 24 * 3600
"""The CPU time of one process. Requests have their own limits; this ends what escapes them."""
_DESCRIPTORS = 4096
_MB = 2**20
# Numbers of linux/prctl.h and linux/capability.h
_NO_NEW_PRIVS = 38
_CAPABILITIES = struct.pack("=Ii", 0x20080522, 0), bytes(24)
"""The header of version 3 for the calling process, and empty capability sets."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The sandbox and the limits of a worker, as the host sends them to it; None: no limit."""

    sandbox: Literal["bubblewrap", "landlock", "none"]
    network: bool
    """Whether the worker can reach the network."""
    memory_mb: int | None
    """The limit for all its processes together, and for each."""

    @property
    def needs_inner_guard(self) -> bool:
        """Whether a second guard ends the processes if the first is killed.

        In bubblewrap they are in a namespace, and end with its first process.
        """
        return self.sandbox == "landlock"

    def to_json(self) -> dict[str, str | int | bool | None]:
        """Return the fields as JSON values."""
        return asdict(self)


def confine(
    protection: Protection,
    *,
    scratch: Path,
    readable: Sequence[Path],
    supervisor: int,
    abi: int = landlock.NEWEST,
) -> None:
    """Confine this process for good, before it loads foreign code and starts threads.

    Args:
        protection: The sandbox and the limits.
        scratch: The directory that the process may write to.
        readable: What the process may read besides the system.
        supervisor: A socket whose other end `supervisor.supervise` reads; closed here.
        abi: The newest version of Landlock to use.
    """
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("A process with several threads cannot be confined: only one would be.")
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


def limit(memory_mb: int | None) -> None:
    """Set the limits that the kernel enforces for each process; child processes inherit them.

    Memory is limited by `RLIMIT_DATA`: the private, writable memory of a process. `RLIMIT_AS` would
    also count memory that is only mapped: the sparse memory that observations cross in, the address
    space that CUDA and LLVM reserve.

    Args:
        memory_mb: The private memory of one process; None: no limit.
    """
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_MB * _MB),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
    ]
    if memory_mb is not None:
        limits.append((resource.RLIMIT_DATA, memory_mb * _MB))
    for name, value in limits:
        _, hard = resource.getrlimit(name)
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (lowest, lowest))


def _give_up_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.capset(*_CAPABILITIES) != 0:
        raise OSError(ctypes.get_errno(), "Could not give up privileges")
