"""Directories of the cache that are made once, whole or not at all, and checked at every use.

    <folder>/<name>/<record>    says what is in the directory; its digest is noted elsewhere
                    ...         the content, read-only
    <folder>/.<name>.lock       held while the directory is built or removed
    <folder>/.<name>.used       held, by many, while processes use the directory; says when last
    <folder>/.<name>-*          leftovers of a builder that was killed

A cache is shared, copied and restored, and whoever changes a file there can change the record
beside it too. The digest of the record is therefore noted in the user's state directory
(`DirectoryNote`); a directory of which nothing is noted there is not used.

How strictly the content is checked depends on the kind of the directory:

| kind                            | record        | at every use                                   |
|---------------------------------|---------------|------------------------------------------------|
| commits: see `sources.store`    | manifest.json | every byte is hashed                           |
| `PACKAGES`, EnvHub's own copies | envhub.json   | every byte is hashed                           |
| `RUNTIMES`                      | envhub.json   | every byte, unless no file has changed since   |

A runtime has hundreds of megabytes. Whether a file has changed is seen from its size, mode, inode
and the time of its last change (ctime), which nobody but root can set. If anything differs, as in a
cache that was restored, every byte is hashed once more.

In a `__pycache__` only the compiled modules count. Whatever else programs keep there, such as
Numba's compiled functions, may come and go: root can write to a read-only directory.
"""

import fcntl
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from envhub.errors import RuntimeUnavailable
from envhub.files import (
    advise_on_space,
    cache_home,
    discard_tree,
    set_writable,
    settle_tree,
    staged_tree,
    state_home,
    walk_tree,
    write_whole,
)
from envhub.options import Say

Build = Callable[[Path], dict[str, Any]]
"""Fills an empty directory and returns its description."""

_RECORD = "envhub.json"
_FORMAT = 2
_PIECE = 2**20
"""Bytes of a file that are hashed at a time: some files are larger than the memory."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of directories that are built."""

    folder: str
    """Of the cache."""
    check: Literal["content", "changes"]
    """What is hashed at every use: every byte, or every byte if a file has changed since."""


RUNTIMES = Kind("runtimes", "changes")
PACKAGES = Kind("packages", "content")


class DirectoryNote(msgspec.Struct, frozen=True):
    """What is noted of a directory in the user's state directory."""

    manifest: str
    """The sha256 of its record's bytes."""
    branch_at: str = ""
    """The Hub where a branch or tag of the repository leads to the commit, or has led to it."""
    unchanged: str = ""
    """The digest of its files' attributes when every byte was last checked."""


@dataclass(frozen=True, slots=True)
class BuiltDirectory:
    """A built directory of the cache."""

    key: str
    place: Path
    about: dict[str, Any]
    whole: bool


# What is known


def recall(note: str) -> DirectoryNote | None:
    """Return what is noted under a name; None if nothing is, or nothing that can be read."""
    try:
        return msgspec.json.decode(_noted_at(note).read_bytes(), type=DirectoryNote)
    except (OSError, msgspec.DecodeError):
        return None


def remember(note: str, known: DirectoryNote, *, secret: bool = True) -> None:
    """Note something under a name.

    Args:
        note: The name.
        known: What to note.
        secret: Whether only the user may read it. What is built may be used by everybody who
            shares the state directory, as with an `ENVHUB_HOME` that was prepared for others.

    Raises:
        OSError: The state directory cannot be written.
    """
    path = _noted_at(note)
    path.parent.mkdir(mode=0o700 if secret else 0o755, parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(known), mode=0o600 if secret else 0o644)


def forget(note: str) -> None:
    """Remove what is noted under a name."""
    _noted_at(note).unlink(missing_ok=True)


def digest(record: bytes) -> str:
    """Return the digest of a record."""
    return hashlib.sha256(record).hexdigest()


# What is built


def ensure(
    kind: Kind,
    key: str,
    build: Build,
    *,
    tag: str = sys.implementation.cache_tag,
    message: Say = lambda _: None,
) -> Path:
    """Return the directory of a key; build it if it is missing, damaged or unknown.

    Args:
        kind: The kind of the directory.
        key: Its name in the folder of the kind.
        build: Fills the directory; called in one process at a time.
        tag: Of the names of its compiled modules.
        message: Receives a message about damage, or about waiting for another process.

    Raises:
        RuntimeUnavailable: The cache or the state directory is not writable.
    """
    place = cache_home() / kind.folder / key
    hold(place)
    if is_whole(kind, key):
        return place
    try:
        with locked(place, lambda: message(f"Waiting for another process that is building {key}.")):
            if is_whole(kind, key):  # another process was faster
                return place
            if place.exists():
                message(f"{place} {_problem(kind, key)}: rebuilding it.")
            _remove_all(place)
            _build(kind, place, build, tag)
    except OSError as exc:
        raise RuntimeUnavailable(
            f"{exc.filename or place} cannot be written: {exc.strerror or exc}.",
            advise_on_space(exc, _variable_of(exc)),
        ) from exc
    return place


def is_whole(kind: Kind, key: str) -> bool:
    """Whether a directory is as this user has built it."""
    place, known = cache_home() / kind.folder / key, recall(_note(kind, key))
    try:
        record = (place / _RECORD).read_bytes()
        if known is None or digest(record) != known.manifest:
            return False
        about = json.loads(record)
        unchanged = ""
        if kind.check == "changes":
            unchanged = _digest_tree(place, about["tag"], _attributes)
            if unchanged == known.unchanged:
                return True
        whole = bool(_digest_tree(place, about["tag"], _content) == about["content"])
    except OSError:  # another process is removing it
        return False
    if whole and unchanged:
        with suppress(OSError):  # then every byte is hashed next time too
            remember(
                _note(kind, key), DirectoryNote(known.manifest, unchanged=unchanged), secret=False
            )
    return whole


def all_built(kind: Kind) -> tuple[BuiltDirectory, ...]:
    """Return all directories of a kind, including damaged ones."""
    base = cache_home() / kind.folder
    places = sorted(base.iterdir()) if base.is_dir() else []
    return tuple(
        BuiltDirectory(place.name, place, describe(kind, place.name), is_whole(kind, place.name))
        for place in places
        if place.is_dir() and not place.name.startswith(".")
    )


# What is in use


def hold(place: Path) -> None:
    """Keep a directory of the cache from being removed while this process lives, and note the time.

    Whoever removes it right now is waited for. Where nothing can be written, as in a cache that the
    user may only read, that is how it is.
    """
    if place not in _held:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            _held[place] = _lock_use(place, fcntl.LOCK_SH)
    with suppress(OSError, KeyError):
        os.utime(_held[place])


_held: dict[Path, int] = {}
"""What this process uses, with the descriptors that say so."""


def remove_unused(place: Path) -> bool:
    """Remove a directory and the leftovers of its builders, unless a process uses or makes it.

    Returns:
        Whether nothing of it is there any more.

    Raises:
        OSError: It cannot be removed.
    """
    if not place.parent.is_dir():
        return True
    try:
        used = _lock_use(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        # Commits of the store are made without a lock; whoever makes one would leave its file.
        made = locked(place, wait=False) if _lock_file(place).exists() else nullcontext()
        with made:
            _remove_all(place)
            _use_file(place).unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(used)
    return True


def remove_built(kind: Kind, key: str) -> bool:
    """Remove the directory of a key unless a process uses it; return whether it is gone."""
    if not remove_unused(cache_home() / kind.folder / key):
        return False
    forget(_note(kind, key))
    return True


def is_used(place: Path) -> bool:
    """Whether a process uses a directory, or makes it."""
    return any(map(_is_locked, (_use_file(place), _lock_file(place))))


def last_use(place: Path, made: Path) -> float:
    """Return when a directory was last used, in seconds of the epoch.

    Args:
        place: The directory.
        made: Says when it was made, if nothing says when it was used.
    """
    for path in (_use_file(place), made):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def _lock_use(place: Path, how: int) -> int:
    """Lock the file that says who uses a directory; return its descriptor."""
    path = _use_file(place)
    while True:
        try:
            lock = os.open(path, _LOCK_FLAGS, 0o666)
        except PermissionError:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, how)
            if os.fstat(lock).st_nlink:  # else it was removed with the directory
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody has made it
        return False
    return False


def _use_file(place: Path) -> Path:
    return place.with_name(f".{place.name.removeprefix('.')}.used")


def _lock_file(place: Path) -> Path:
    return place.with_name(f".{place.name.removeprefix('.')}.lock")


def describe(kind: Kind, key: str) -> dict[str, Any]:
    """Return what the record of a directory says, for showing; nothing of it was checked."""
    try:
        record = cache_home() / kind.folder / key / _RECORD
        about = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def known_keys(kind: Kind) -> tuple[str, ...]:
    """Return the keys of all directories that were built or begun."""
    base = cache_home() / kind.folder
    names = [path.name for path in base.iterdir()] if base.is_dir() else []
    begun = {name[1:].removesuffix(".lock") for name in names if name.endswith(".lock")}
    return tuple(sorted(begun | {name for name in names if not name.startswith(".")}))


def leftovers(place: Path) -> list[Path]:
    """Return what killed builders of a directory left."""
    return list(place.parent.glob(f"{_leftover(place)}-*"))


def size_of(place: Path) -> int:
    """Return the bytes in a directory."""
    return sum(status.st_size for _, status in walk_tree(str(place)))


@contextmanager
def locked(
    place: Path, on_wait: Callable[[], None] = lambda: None, *, wait: bool = True
) -> Iterator[None]:
    """Lock out other processes that make a directory; the kernel releases the lock at the end.

    Raises:
        BlockingIOError: Another process makes it, and the caller does not wait.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(place).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(kind: Kind, place: Path, build: Build, tag: str) -> None:
    """Build in a temporary directory and move it, so that `place` is whole or does not exist."""
    with staged_tree(place.parent, f".{place.name}-") as staged:
        about = build(staged)
        set_writable(staged, writable=False)  # before the digest, which has the modes
        record = json.dumps(
            {
                "format": _FORMAT,
                "built": datetime.now(UTC).isoformat(timespec="seconds"),
                "content": _digest_tree(staged, tag, _content),
                "tag": tag,
                **about,
            },
            indent=1,
        ).encode()
        staged.chmod(0o755)
        write_whole(staged / _RECORD, record)
        settle_tree(staged, place)
    # Last, since settling changes attributes; a directory that is not noted is built again.
    unchanged = _digest_tree(place, tag, _attributes)
    remember(
        _note(kind, place.name), DirectoryNote(digest(record), unchanged=unchanged), secret=False
    )


def _variable_of(error: OSError) -> str:
    """Return the variable that says where the file of an error is."""
    in_state = str(error.filename or "").startswith(str(state_home()))
    return "ENVHUB_STATE_DIR" if in_state else "ENVHUB_CACHE_DIR"


def _note(kind: Kind, key: str) -> str:
    return f"built/{kind.folder}/{key}"


def _noted_at(note: str) -> Path:
    return state_home() / f"{note}.json"


def _problem(kind: Kind, key: str) -> str:
    return "was not built by you" if recall(_note(kind, key)) is None else "is damaged"


def _digest_tree(place: Path, tag: str, describe: Callable[[str, os.stat_result], str]) -> str:
    """Return the digest of all paths below a directory and a description of each."""
    top = str(place)
    entries = {path[len(top) :]: (path, status) for path, status in walk_tree(top)}
    lines = [
        f"{name}\0{status.st_mode}\0{describe(path, status)}"
        for name, (path, status) in entries.items()
        if name != f"/{_RECORD}" and ("__pycache__" not in name or _counts(name, entries, tag))
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _counts(name: str, entries: Container[str], tag: str) -> bool:
    """Whether an entry counts: not a `__pycache__`, and in one only the compiled modules."""
    folder, cache, inside = f"{name}/".partition("/__pycache__/")
    if not cache:
        return True
    module, compiled, rest = inside.partition(f".{tag}.")
    optimized = rest == "pyc/" or (rest.startswith("opt-") and rest.endswith(".pyc/"))
    return bool(compiled) and optimized and f"{folder}/{module}.py" in entries


def _attributes(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)  # noqa: PTH115 - called thousands of times, and Path is slow
    if stat.S_ISDIR(status.st_mode):  # its time changes when something is renamed in it
        return ""
    # The time of the last change of the content or of the mode, which only root can set.
    return f"{status.st_size}\0{status.st_ino}\0{status.st_ctime_ns}"


def _content(path: str, status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return _attributes(path, status)
    found = hashlib.sha256()
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _PIECE):
            found.update(piece)
    finally:
        os.close(descriptor)
    return found.hexdigest()


def _remove_all(place: Path) -> None:
    """Remove a directory and the leftovers of its killed builders."""
    if place.exists():
        place.chmod(0o755)
        # Moved first, so that nobody sees half of it.
        discarded = Path(tempfile.mkdtemp(prefix=f"{_leftover(place)}-", dir=place.parent))
        place.rename(discarded / "old")
    for leftover in leftovers(place):
        with suppress(OSError):  # a child of a killed builder may still be writing there
            discard_tree(leftover)


def _leftover(place: Path) -> str:
    return f".{place.name.removeprefix('.')}"
