"""The sandbox that code from the Hub runs in: bubblewrap, or Landlock with seccomp, or none.

The host chooses one (`choose`) and starts the worker with what `command` makes of its command
line. Inside, before anything foreign is loaded, the worker shuts itself in (`runtime.confine`).
What does not work is an error: nothing here falls back to something weaker.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from envhub import process
from envhub.errors import EnvHubError, ExitCode
from envhub.runtime import bounds, landlock, limits, seccomp, trials, visible
from envhub.runtime.confine import Kind, Protection

Wanted = Literal["auto", "bubblewrap", "landlock", "none"]

_TIMEOUT = 20.0
"""Seconds that a first start may take, also from a cold network disk."""
_TEMPORARY = 256 * 2**20
"""Bytes of /tmp inside, and of shared memory."""


class SandboxUnavailable(EnvHubError):
    """The sandbox that was asked for does not work here.

    Attributes:
        wanted: Which one was asked for.
        problems: What keeps each from working.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, wanted: Wanted, problems: dict[str, str]) -> None:
        which = "No sandbox" if wanted == "auto" else f"The sandbox {wanted!r}"
        verb = "works" if wanted == "auto" else "does not work"
        found = "; ".join(f"{kind}: {problem}" for kind, problem in problems.items())
        super().__init__(
            f"{which} {verb} here: {found}. `envhub doctor` says what to install or to set; "
            "--sandbox none runs the code unprotected, if you trust it with everything you have."
        )
        self.wanted = wanted
        self.problems = problems


class HomeExposed(EnvHubError):
    """A directory that a sandbox would have to show holds the user's home.

    Attributes:
        path: The directory.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The sandbox would have to show {path} to foreign code, and with it your home "
            "directory. Move what is needed into a directory of its own."
        )
        self.path = path


def protect(kind: Kind, *, network: bool, memory_mb: int | None) -> Protection:
    """The protection of a worker.

    Args:
        kind: From `choose`.
        network: Whether its code can reach the network.
        memory_mb: Of all its processes together, and of each.
    """
    if kind == "none":
        return Protection(kind, True, None, None, None)
    return Protection(kind, network, memory_mb, bounds.processes(), limits.FILE_MB)


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
    if trials.recall(bwrap) is not None:
        return seccomp.trouble()
    problem = trouble(kind)
    if problem is None:
        trials.remember(bwrap, _options(bwrap))
    return problem


def _trouble_inside() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH"
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        idle = (sys.executable, "-V")  # the least that shows that it can be started inside
        readable = visible.interpreter_paths()
        argv = wrap(idle, scratch=Path(scratch), readable=readable, network=False)
        done = process.run(argv, timeout=_TIMEOUT, env={})
    if done is None:
        return f"bwrap did not end within {_TIMEOUT:g} s"
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
            if visible.holds_home(path):
                raise HomeExposed(path)
    if protection.sandbox != "bubblewrap":
        return list(argv)
    return wrap(argv, scratch=scratch, readable=readable, network=protection.network)


def wrap(
    argv: Sequence[str], *, scratch: Path, readable: Sequence[Path], network: bool
) -> list[str]:
    """A command line that runs another one in bubblewrap, in namespaces of its own.

    Descriptors that are inherited pass through.
    """
    bwrap = shutil.which("bwrap") or "bwrap"
    options = _options(bwrap)
    return [
        *(bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(() if network else ("--unshare-net",)),
        *(("--disable-userns",) if "--disable-userns" in options else ()),
        *("--hostname", "envhub", "--proc", "/proc", "--dev", "/dev"),
        *_temporary(bounded="--size" in options),
        *_system_binds(network=network),
        *(word for path in visible.apart(readable) for word in ("--ro-bind", str(path), str(path))),
        *("--bind", str(scratch), str(scratch), "--chdir", str(scratch)),
        # What bubblewrap itself made is on file systems of its own, which count as nobody's memory;
        # and root outside could change the kernel's settings through /proc.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--", *argv),
    ]


def _temporary(*, bounded: bool) -> Iterator[str]:
    """Directories for everybody; they stay read-only where their size cannot be bounded."""
    for directory in ("/tmp", "/dev/shm"):  # noqa: S108 - those inside
        sized = ("--size", str(_TEMPORARY), "--tmpfs", directory)
        yield from sized if bounded else ("--dir", directory)


def _system_binds(*, network: bool) -> Iterator[str]:
    for path in visible.ROOTS:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind-try", str(path), str(path))
    for path in visible.system_files(network=network):
        yield from ("--ro-bind-try", str(path), str(path))
    for path in visible.gpus():
        yield from ("--dev-bind-try", str(path), str(path))


@cache
def _options(bwrap: str) -> str:
    """The options that it knows, as its help lists them."""
    if kept := trials.recall(bwrap):
        return kept
    done = process.run([bwrap, "--help"], timeout=_TIMEOUT)
    return done.stdout + done.stderr if done else ""
