"""How the sandboxes differ. `envhub doctor` prints it, and a run records it.

All are compared with a current bubblewrap that an ordinary user starts. None of them can read the
user's files, reach the network or change anything outside of its scratch directory.
`docs/security.md` has the same table, and `tests/sandbox/test_differences.py` shows each row.
"""

import os
import shutil
from dataclasses import dataclass
from typing import Literal

from envhub.options import SandboxKind
from envhub.sandbox import landlock
from envhub.sandbox.bubblewrap import known_options


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that a sandbox exposes or forbids, and bubblewrap does not."""

    effect: Literal["exposes", "forbids"]
    name: str
    text: str
    before_abi: int | None = None
    """The version of Landlock that does not have it any more; None: all have it."""
    offline_only: bool = False
    """Whether it needs a network of its own; with `--sandbox-allow-network` there is none."""

    def __str__(self) -> str:
        return f"{self.effect} {self.name}: {self.text}"


_TEMPORARY = Difference(
    "forbids", "temporary directory", "writing to `/tmp`; `TMPDIR` names its scratch directory"
)
_SHARED_MEMORY = Difference(
    "forbids", "shared memory", "locks, queues and memory between processes, as in `/dev/shm`"
)
_FILE_MODES = Difference(
    "forbids", "file modes", "`chmod`, `chown` and `utime` do nothing and report success"
)

LANDLOCK = (
    Difference("exposes", "file names", "names, sizes and modes of all files, not their contents"),
    Difference("exposes", "process numbers", "which processes exist, not what they do"),
    Difference("exposes", "host name", "the name of the machine"),
    Difference("exposes", "mounts", "the mounted file systems, in `/proc/self/mounts`"),
    Difference(
        "exposes",
        "connections",
        "open connections and names of sockets, in `/proc/self/net`",
        offline_only=True,
    ),
    _TEMPORARY,
    _SHARED_MEMORY,
    Difference("forbids", "named sockets", "Unix sockets with a name", offline_only=True),
    Difference(
        "forbids", "loopback", "servers on the loopback interface, for itself", offline_only=True
    ),
    _FILE_MODES,
    Difference("forbids", "process files", "reading `/proc/self` in child processes"),
    Difference(
        "forbids", "signals", "to its child processes; Linux 6.12 allows them", before_abi=6
    ),
    Difference(
        "forbids", "renames", "into another directory; Linux 5.19 allows them", before_abi=2
    ),
)
"""The differences of Landlock, on any kernel."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the differences depend on besides the sandbox and its network."""

    abi: int
    """The version of Landlock."""
    root: bool
    """Whether the user is root, who owns the device nodes that a sandbox shows."""
    sized: bool
    """Whether bubblewrap can bound a file system in memory, as it can since 0.7."""


def conditions() -> Conditions:
    """Return the conditions of this machine and user."""
    bwrap = shutil.which("bwrap")
    return Conditions(
        landlock.version()[0], os.getuid() == 0, bwrap is None or "--size" in known_options(bwrap)
    )


def differences(
    sandbox: SandboxKind, here: Conditions, *, network: bool
) -> tuple[Difference, ...] | None:
    """Return how a sandbox differs; None for `none`, which cannot be compared.

    Args:
        sandbox: The sandbox, from `choose`.
        here: From `conditions`.
        network: Whether the code may use the network.
    """
    match sandbox:
        case "none":
            return None
        case "bubblewrap":
            unsized = () if here.sized else (_TEMPORARY, _SHARED_MEMORY)
            return (*unsized, *((_FILE_MODES,) if here.root else ()))
        case "landlock":
            return tuple(
                each
                for each in LANDLOCK
                if (each.before_abi is None or here.abi < each.before_abi)
                and not (network and each.offline_only)
            )
