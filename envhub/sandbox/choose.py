"""Choose the sandbox of foreign code, and make the command line that starts a worker in it.

There are two: bubblewrap, and Landlock with a stricter seccomp filter. `auto` means the stronger
one that works here, and each is tried before it is relied on. A sandbox that was asked for and does
not work is an error: nothing falls back to something weaker. `none` is used only if asked for.
"""

import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from envhub import process
from envhub.errors import HomeExposed, SandboxUnavailable
from envhub.machine import resources
from envhub.options import SandboxChoice, SandboxKind
from envhub.sandbox import bubblewrap, filesystem, landlock, seccomp
from envhub.sandbox.bubblewrap import TIMEOUT, known_options, wrap
from envhub.sandbox.inside import Protection
from envhub.scratch import scratch_directory
from envhub.types import THIS_PYTHON, Confinement

SANDBOXES: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
"""The strongest first."""

_LEAST_MB = 2048
"""The memory that a sandboxed worker may always use, however little is free."""


def choose(choice: SandboxChoice) -> SandboxKind:
    """Return the sandbox to use; for `auto`, the strongest that works here.

    Raises:
        SandboxUnavailable: The chosen sandbox does not work here; for `auto`, none does.
    """
    if choice == "none":
        return "none"
    problems: dict[str, str] = {}
    candidates = SANDBOXES if choice == "auto" else (choice,)
    for sandbox in candidates:
        problem = _recall_why_unavailable(sandbox)
        if problem is None:
            return sandbox
        problems[sandbox] = problem
    raise SandboxUnavailable(choice, problems)


def why_unavailable(sandbox: SandboxKind) -> str | None:
    """Try a sandbox; return the reason why it does not work here, or None if it works."""
    match sandbox:
        case "none":
            return None
        case "landlock":
            abi, error = landlock.version()
            return (
                seccomp.why_unavailable()
                if abi > 0
                else f"not in this kernel ({os.strerror(error)})"
            )
        case "bubblewrap":
            return seccomp.why_unavailable() or _why_bubblewrap_is_unavailable()


def confine_foreign(
    sandbox: SandboxKind, readable: Sequence[str], *, network: bool = False
) -> Confinement:
    """Return the restrictions on foreign code; in no sandbox it has the network and all memory.

    Args:
        sandbox: The sandbox, from `choose`.
        readable: Paths that the code may read besides the system and its interpreter.
        network: Whether it may use the network.
    """
    if sandbox == "none":
        return Confinement(sandbox, network=True, readable=tuple(readable))
    memory_mb = max(_LEAST_MB, resources.memory_mb() * 3 // 4)
    return Confinement(sandbox, network=network, readable=tuple(readable), memory_mb=memory_mb)


def protect(sandbox: SandboxKind, *, network: bool, memory_mb: int | None) -> Protection:
    """Return the protection of a worker.

    Args:
        sandbox: The sandbox, from `choose`.
        network: Whether the worker can reach the network.
        memory_mb: The limit for all its processes together, and for each.
    """
    if sandbox == "none":
        return Protection(sandbox, True, None)
    return Protection(sandbox, network, memory_mb)


def command(
    protection: Protection, argv: Sequence[str], *, scratch: Path, readable: Sequence[Path]
) -> list[str]:
    """Return the command line that starts a worker, which then has to call `inside.confine`.

    Args:
        protection: The worker's protection, from `protect`.
        argv: The worker's own command line.
        scratch: The only directory that the worker may write to; also its home.
        readable: What the worker may read besides the system: its interpreter, the benchmark.

    Raises:
        HomeExposed: One of the directories contains the user's home.
    """
    if protection.sandbox != "none":
        for path in (scratch, *readable):
            if filesystem.holds_home(path):
                raise HomeExposed(path)
    if protection.sandbox != "bubblewrap":
        return list(argv)
    return wrap(argv, scratch=scratch, readable=readable, network=protection.network)


@cache
def _recall_why_unavailable(sandbox: SandboxKind) -> str | None:
    """Like `why_unavailable`, but once per process; bubblewrap only if it may have changed."""
    bwrap = shutil.which("bwrap") if sandbox == "bubblewrap" else None
    if bwrap is None:
        return why_unavailable(sandbox)
    if bubblewrap.recall(bwrap) is not None:
        return seccomp.why_unavailable()
    problem = why_unavailable(sandbox)
    if problem is None:
        bubblewrap.remember(bwrap, known_options(bwrap))
    return problem


def _why_bubblewrap_is_unavailable() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH"
    with scratch_directory() as scratch:
        idle = (THIS_PYTHON, "-V")  # the least that shows that this interpreter starts inside
        readable = filesystem.interpreter_paths()
        argv = wrap(idle, scratch=scratch, readable=readable, network=False)
        done = process.run(argv, timeout=TIMEOUT, env={})
    if done is None:
        return f"bwrap did not end within {TIMEOUT:g} s"
    last_line = done.stderr.strip().rpartition("\n")[2]
    how = f"bwrap {process.describe_exit(done.code)}"
    return (last_line or how) if done.code else None
