"""Directories of the cache that are made once, whole or not at all, and checked at every use.

    <folder>/<name>/<record>    says what is in the directory; its digest is noted elsewhere
                    ...         the content, read-only
    <folder>/.<name>.lock       held while the directory is built or removed
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
from contextlib import contextmanager, suppress
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

Say = Callable[[str], None]
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
        BuiltDirectory(place.name, place, _read(place), is_whole(kind, place.name))
        for place in places
        if place.is_dir() and not place.name.startswith(".")
    )


def remove(kind: Kind, key: str) -> bool:
    """Remove the directory of a key and its leftovers; return whether any existed."""
    place = cache_home() / kind.folder / key
    forget(_note(kind, key))
    if not place.parent.is_dir() or not (place.exists() or _leftovers(place)):
        return False
    with locked(place):
        _remove_all(place)
    return True


def known_keys(kind: Kind) -> tuple[str, ...]:
    """Return the keys of all directories that were built or begun."""
    base = cache_home() / kind.folder
    names = [path.name for path in base.iterdir()] if base.is_dir() else []
    begun = {name[1:].removesuffix(".lock") for name in names if name.endswith(".lock")}
    return tuple(sorted(begun | {name for name in names if not name.startswith(".")}))


def size_of(place: Path) -> int:
    """Return the bytes in a directory."""
    return sum(status.st_size for _, status in walk_tree(str(place)))


@contextmanager
def locked(place: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock out other processes that make a directory; the kernel releases the lock at the end."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name.removeprefix('.')}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
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


def _read(place: Path) -> dict[str, Any]:
    """Return what a record says, for showing; nothing of it was checked."""
    try:
        about = json.loads((place / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


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
        discarded = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        place.rename(discarded / "old")
    for leftover in _leftovers(place):
        with suppress(OSError):  # a child of a killed builder may still be writing there
            discard_tree(leftover)


def _leftovers(place: Path) -> list[Path]:
    return list(place.parent.glob(f".{place.name}-*"))
