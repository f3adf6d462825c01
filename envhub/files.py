"""Where EnvHub keeps things, and how files and trees are written: whole or not at all."""

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from envhub.config import home_of, read_setting
from envhub.errors import UsageError

_fetching_to: ContextVar[Path | None] = ContextVar("fetching_to", default=None)


@contextmanager
def fetching_to(folder: Path | None) -> Iterator[None]:
    """Use another cache than the user's meanwhile; None: the user's."""
    token = _fetching_to.set(None if folder is None else folder.absolute())
    try:
        yield
    finally:
        _fetching_to.reset(token)


def cache_home() -> Path:
    """What can be fetched or built again: `$ENVHUB_CACHE_DIR`, else the user's cache directory."""
    if (chosen := _fetching_to.get()) is not None:
        return chosen
    if not (os.environ.get("ENVHUB_CACHE_DIR") or os.environ.get("ENVHUB_HOME")):
        named = read_setting("cache").value
        if named is not None:
            return Path(named)
    return home_of("ENVHUB_CACHE_DIR", "XDG_CACHE_HOME", ".cache")


def state_home() -> Path:
    """What must be kept apart from caches: `$ENVHUB_STATE_DIR`, else the user's state directory."""
    return home_of("ENVHUB_STATE_DIR", "XDG_STATE_HOME", ".local/state")


def advise_on_space(error: OSError, variable: str) -> str:
    """Return what to do about a directory of EnvHub's that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"Free some space there, or set {variable} to another directory."
    return f"Set {variable} to a directory that you can write to."


def write_whole(path: Path, data: bytes, *, mode: int = 0o666, durable: bool = True) -> None:
    """Write a file so that it is there whole, as it was before, or not at all.

    Args:
        path: Its directory must exist.
        data: The content.
        mode: Its permissions, less the umask.
        durable: Whether it must outlive a power failure, which costs a flush of the disk. Not for
            files that are written many times a second and can be made again.
    """
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(path)
    except BaseException as exc:
        part.unlink(missing_ok=True)
        if isinstance(exc, OSError) and exc.filename is None:
            exc.filename = str(path)  # a full disk is found while writing, which names no file
        raise


def open_regular(path: Path, *, inside: Path | None = None, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading; anything else could never end, or wait for a writer.

    Args:
        path: The file.
        inside: Its directory, if neither that nor the file itself may be a link.
        most: The bytes that it may have; a sparse file of terabytes takes no room on a disk.

    Raises:
        OSError: It is something else, too large, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if inside is None:
        descriptor = os.open(path, flags)
    else:
        folder = os.open(inside, os.O_DIRECTORY | os.O_NOFOLLOW | flags)
        try:
            descriptor = os.open(path.name, os.O_NOFOLLOW | flags, dir_fd=folder)
        finally:
            os.close(folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    if most is not None and found.st_size > most:
        os.close(descriptor)
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, and may have {most:,}")
    return os.fdopen(descriptor, "rb")


@contextmanager
def staged_tree(parent: Path, prefix: str) -> Iterator[Path]:
    """A new directory to fill, for `settle_tree`; whatever is left of it is removed at the end.

    Args:
        parent: In the file system of the place that the tree is to have.
        prefix: Of its name; by it leftovers of killed processes are found.
    """
    parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield staged
    finally:
        with suppress(OSError):  # after an interrupt something may still be written there
            discard_tree(staged)


def settle_tree(staged: Path, place: Path) -> None:
    """Make a filled directory read-only and put it in its place, at once.

    Raises:
        OSError: The place is taken, or cannot be written to.
    """
    set_writable(staged, writable=False)
    staged.chmod(0o755)  # a directory that is moved must be writable
    place.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(place)
    place.chmod(0o555)


def discard_tree(place: Path) -> None:
    """Remove a directory, read-only or not."""
    if place.is_dir():
        set_writable(place, writable=True)
        shutil.rmtree(place)


def set_writable(top: Path, *, writable: bool) -> None:
    """For the owner or for nobody. Whoever may read now may read later."""
    for path, found in [(str(top), top.lstat()), *walk_tree(str(top))]:
        if not stat.S_ISLNK(found.st_mode):  # the target of a link is not ours
            mode = stat.S_IMODE(found.st_mode)
            os.chmod(path, mode | 0o200 if writable else mode & ~0o222)  # noqa: PTH101


def walk_tree(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below a directory; by texts, since there are thousands and Path takes its time."""
    left = [top]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                yield entry.path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)


def expand_home(text: str) -> Path:
    """Return the path with `~` replaced by the home directory.

    Raises:
        UsageError: There is no such user, or no home.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"{text} is in the home of somebody unknown: write the path.") from exc
