"""The command line that runs a program in bubblewrap, and the note that bubblewrap works here.

A try takes 10 to 15 ms. A successful one is noted in the cache, and the note is valid until the
tool, the interpreter, the namespaces or the kernel's settings change, or a worker does not start.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from envhub import process
from envhub.files import cache_home, write_whole
from envhub.sandbox import filesystem
from envhub.types import THIS_PYTHON

TIMEOUT = 20.0
"""Seconds that a first start may take, also from a cold network disk."""
_TEMPORARY_BYTES = 256 * 2**20
"""The size of /tmp in the sandbox, and that of its shared memory."""
_SETTINGS = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
)
"""Files that say what the kernel allows; not every kernel has them all."""
_STATUS = ("Uid", "CapEff", "NoNewPrivs", "Seccomp")
"""The lines of /proc/self/status that matter."""


def wrap(
    argv: Sequence[str], *, scratch: Path, readable: Sequence[Path], network: bool
) -> list[str]:
    """Return the command line that runs `argv` in bubblewrap, in namespaces of its own.

    Inherited descriptors stay open.

    Args:
        argv: The program's own command line.
        scratch: The directory that it may write to, and its working directory.
        readable: What it may read besides the system.
        network: Whether it can reach the network.
    """
    bwrap = str(Path(shutil.which("bwrap") or "/usr/bin/bwrap").absolute())
    options = known_options(bwrap)
    return [
        *(bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(() if network else ("--unshare-net",)),
        *(("--disable-userns",) if "--disable-userns" in options else ()),
        *("--hostname", "envhub", "--proc", "/proc", "--dev", "/dev"),
        *_temporary(bounded="--size" in options),
        *_system_binds(network=network),
        *(
            word
            for path in filesystem.apart(readable)
            for word in ("--ro-bind", str(path), str(path))
        ),
        *("--bind", str(scratch), str(scratch), "--chdir", str(scratch)),
        # The directories that bubblewrap makes are on file systems of its own, whose memory counts
        # for no process; and root outside could change the kernel's settings through /proc.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--", *argv),
    ]


@cache
def known_options(bwrap: str) -> str:
    """Return the help text of bubblewrap, which lists its options."""
    if note := recall(bwrap):
        return note
    done = process.run([bwrap, "--help"], timeout=TIMEOUT)
    return done.stdout + done.stderr if done else ""


def recall(bwrap: str) -> str | None:
    """Return the note that was made when bubblewrap worked; None if something changed since."""
    try:
        content = json.loads(_note_path().read_text(encoding="utf-8"))
        return str(content["note"]) if content["here"] == _conditions(bwrap) else None
    except (OSError, ValueError, KeyError, TypeError):  # missing or damaged
        return None


def remember(bwrap: str, note: str) -> None:
    """Note that bubblewrap works here."""
    path = _note_path()
    with suppress(OSError):  # not writable: bubblewrap is tried again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"here": _conditions(bwrap), "note": note})
        write_whole(path, content.encode(), durable=False)


def forget() -> None:
    """Delete the note, because a worker did not start: bubblewrap is tried again next time."""
    with suppress(OSError):  # it does not exist, or is not ours
        _note_path().unlink()


def _temporary(*, bounded: bool) -> Iterator[str]:
    """Return the options for /tmp and shared memory, read-only if their size cannot be limited."""
    for directory in ("/tmp", "/dev/shm"):  # noqa: S108 - those in the sandbox
        sized = ("--size", str(_TEMPORARY_BYTES), "--tmpfs", directory)
        yield from sized if bounded else ("--dir", directory)


def _system_binds(*, network: bool) -> Iterator[str]:
    for path in filesystem.ROOTS:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind-try", str(path), str(path))
    for path in filesystem.system_files(network=network):
        yield from ("--ro-bind-try", str(path), str(path))
    for path in filesystem.gpus():
        yield from ("--dev-bind-try", str(path), str(path))


def _note_path() -> Path:
    return cache_home() / "bubblewrap.json"


def _conditions(bwrap: str) -> str:
    """Return the digest of everything that decides whether bubblewrap works."""
    tool, status = Path(bwrap).stat(), Path("/proc/self/status").read_text(encoding="utf-8")
    facts = [
        *(bwrap, tool.st_ino, tool.st_size, tool.st_mtime_ns),
        *(THIS_PYTHON, str(Path(__file__).parent)),
        *(str(Path("/proc/self/ns", name).readlink()) for name in ("user", "mnt", "pid", "cgroup")),
        *(line for line in status.splitlines() if line.startswith(_STATUS)),
        *(_text(Path(path)) for path in _SETTINGS),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
