"""The sandbox that code from the Hub runs in: bubblewrap, or Landlock with seccomp, or none.

The host chooses one (`choose`) and starts the worker with what `command` makes of its command
line. Inside, before anything foreign is loaded, the worker shuts itself in (`runtime.confine`).
What does not work is an error: nothing here falls back to something weaker.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from envhub import process
from envhub.files import cache_home, write_whole
from envhub.sandbox import filesystem

TIMEOUT = 20.0
"""Seconds that a first start may take, also from a cold network disk."""

_TEMPORARY = 256 * 2**20
"""Bytes of /tmp inside, and of shared memory."""


def wrap(
    argv: Sequence[str], *, scratch: Path, readable: Sequence[Path], network: bool
) -> list[str]:
    """A command line that runs another one in bubblewrap, in namespaces of its own.

    Descriptors that are inherited pass through.
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
    for path in filesystem.ROOTS:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind-try", str(path), str(path))
    for path in filesystem.system_files(network=network):
        yield from ("--ro-bind-try", str(path), str(path))
    for path in filesystem.gpus():
        yield from ("--dev-bind-try", str(path), str(path))


@cache
def known_options(bwrap: str) -> str:
    """The options that it knows, as its help lists them."""
    if kept := recall(bwrap):
        return kept
    done = process.run([bwrap, "--help"], timeout=TIMEOUT)
    return done.stdout + done.stderr if done else ""


_SETTINGS = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
)
"""What the kernel allows; not every kernel has them all."""

_STATUS = ("Uid", "CapEff", "NoNewPrivs", "Seccomp")


def recall(bwrap: str) -> str | None:
    """What was noted about the tool when it worked, if nothing has changed since."""
    try:
        kept = json.loads(_place().read_text(encoding="utf-8"))
        return str(kept["note"]) if kept["here"] == _here(bwrap) else None
    except (OSError, ValueError, KeyError, TypeError):  # nothing there, or nothing of use
        return None


def remember(bwrap: str, note: str) -> None:
    """Keep that the tool works, and a note about it."""
    place = _place()
    with suppress(OSError):  # a directory that cannot be written to: it is tried again next time
        place.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"here": _here(bwrap), "note": note})
        write_whole(place, content.encode(), durable=False)


def forget() -> None:
    """A worker did not start: try anew next time."""
    with suppress(OSError):  # it is not there, or not ours to change
        _place().unlink()


def _place() -> Path:
    return cache_home() / "bubblewrap.json"


def _here(bwrap: str) -> str:
    """The digest of what decides whether it works."""
    tool, status = Path(bwrap).stat(), Path("/proc/self/status").read_text(encoding="utf-8")
    facts = [
        *(bwrap, tool.st_ino, tool.st_size, tool.st_mtime_ns),
        *(sys.executable, str(Path(__file__).parent)),
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
