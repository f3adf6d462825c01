"""The worker's side of a sandbox: it shuts itself in, before anything foreign is loaded.

Every worker in a sandbox imports this before it has any package but this one, so it imports little.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from envhub.runtime import landlock, limits, seccomp

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
    limits.limit(protection.memory_mb)
    _give_up_privileges()
    if protection.sandbox == "landlock":
        from envhub.runtime import visible

        abi = min(abi, landlock.version()[0])
        landlock.restrict(
            readable=(
                *visible.ROOTS,
                *visible.system_files(network=protection.network),
                *visible.PROC,
                *readable,
            ),
            writable=(scratch,),
            devices=(*visible.DEVICES, *visible.gpus()),
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
