"""TODO sandbox.choose."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from envhub import process
from envhub.errors import HomeExposed, SandboxUnavailable
from envhub.sandbox import bubblewrap, filesystem, inside, landlock, seccomp, supervisor
from envhub.sandbox.bubblewrap import TIMEOUT, known_options, wrap
from envhub.sandbox.inside import Kind, Protection

Wanted = Literal["auto", "bubblewrap", "landlock", "none"]


def protect(kind: Kind, *, network: bool, memory_mb: int | None) -> Protection:
    """The protection of a worker.

    Args:
        kind: From `choose`.
        network: Whether its code can reach the network.
        memory_mb: Of all its processes together, and of each.
    """
    if kind == "none":
        return Protection(kind, True, None, None, None)
    return Protection(kind, network, memory_mb, supervisor.processes(), inside.FILE_MB)


def choose(wanted: Wanted) -> Kind:
    """The sandbox to use; for `auto`, the strongest that works here.

    Raises:
        SandboxUnavailable: The one that was asked for does not work here.
    """
    if wanted == "none":
        return "none"
    problems: dict[str, str] = {}
    candidates: tuple[Kind, ...] = ("bubblewrap", "landlock") if wanted == "auto" else (wanted,)
    for kind in candidates:
        problem = _known_trouble(kind)
        if problem is None:
            return kind
        problems[kind] = problem
    raise SandboxUnavailable(wanted, problems)


def trouble(kind: Kind) -> str | None:
    """What keeps a sandbox from working here; None if it works. It is really tried."""
    match kind:
        case "none":
            return None
        case "landlock":
            abi, error = landlock.version()
            return seccomp.trouble() if abi > 0 else f"not in this kernel ({os.strerror(error)})"
        case "bubblewrap":
            return seccomp.trouble() or _trouble_inside()


@cache
def _known_trouble(kind: Kind) -> str | None:
    """The same, tried once, if it was not tried before."""
    bwrap = shutil.which("bwrap") if kind == "bubblewrap" else None
    if bwrap is None:
        return trouble(kind)
    if bubblewrap.recall(bwrap) is not None:
        return seccomp.trouble()
    problem = trouble(kind)
    if problem is None:
        bubblewrap.remember(bwrap, known_options(bwrap))
    return problem


def _trouble_inside() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH"
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        idle = (sys.executable, "-V")  # the least that shows that it can be started inside
        readable = filesystem.interpreter_paths()
        argv = wrap(idle, scratch=Path(scratch), readable=readable, network=False)
        done = process.run(argv, timeout=TIMEOUT, env={})
    if done is None:
        return f"bwrap did not end within {TIMEOUT:g} s"
    last = done.stderr.strip().rpartition("\n")[2]
    how = f"bwrap {process.describe_exit(done.code)}"
    return (last or how) if done.code else None


def command(
    protection: Protection, argv: Sequence[str], *, scratch: Path, readable: Sequence[Path]
) -> list[str]:
    """The command line that starts a worker, which then has to shut itself in.

    Args:
        protection: From `protect`.
        argv: The worker's own command line.
        scratch: The directory that it may write to, which is its home too.
        readable: What it may read besides the system: its interpreter, the benchmark.

    Raises:
        HomeExposed: One of the directories holds the user's home.
    """
    if protection.sandbox != "none":
        for path in (scratch, *readable):
            if filesystem.holds_home(path):
                raise HomeExposed(path)
    if protection.sandbox != "bubblewrap":
        return list(argv)
    return wrap(argv, scratch=scratch, readable=readable, network=protection.network)
