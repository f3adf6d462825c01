"""Directories in the cache that are built once, whole or not at all, and read-only afterwards.

    <kind>/<key>/envhub.json    a description, and the digest of a listing of the directory
                 ...            the content
    <kind>/.<key>.lock          held while the directory is built or removed
    <kind>/.<key>-*             leftovers of a builder that was killed

A listing has every path with its size, time, mode and link target. Each use makes the listing again
and compares the digests: reading every byte of a simulator would take seconds, this takes
milliseconds. In a `__pycache__` only the compiled modules count. Whatever else programs keep there,
such as Numba's compiled functions, may come and go: root can write to a read-only directory.
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
from typing import Any

from envhub.errors import RuntimeUnavailable
from envhub.files import (
    cache_home,
    discard_tree,
    set_writable,
    settle_tree,
    staged_tree,
    walk_tree,
    write_whole,
)

Say = Callable[[str], None]
Build = Callable[[Path], dict[str, Any]]
"""Fills an empty directory and returns its description."""

_ABOUT = "envhub.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Built:
    """A built directory of the cache."""

    key: str
    place: Path
    about: dict[str, Any]
    whole: bool


def ensure(
    kind: str,
    key: str,
    build: Build,
    *,
    tag: str = sys.implementation.cache_tag,
    message: Say = lambda _: None,
) -> Path:
    """Return the directory of a key; build it if it is missing or damaged.

    Args:
        kind: The parent directory in the cache.
        key: The name of the directory there.
        build: Fills the directory; called in one process at a time.
        tag: Of the names of its compiled modules.
        message: Receives a message about damage, or about waiting for another process.

    Raises:
        RuntimeUnavailable: The cache is not writable.
    """
    place = cache_home() / kind / key
    if is_whole(place):
        return place
    try:
        with _locked(place, message):
            if is_whole(place):  # another process was faster
                return place
            if place.exists():
                message(f"{place} is damaged: rebuilding it.")
            _remove_all(place)
            _build(place, build, tag)
    except OSError as exc:
        raise RuntimeUnavailable(
            f"{exc.filename or place} cannot be written: {exc.strerror or exc}.",
            "Free some space there, or set ENVHUB_HOME to another directory.",
        ) from exc
    return place


def is_whole(place: Path) -> bool:
    """Whether a directory is unchanged since it was built."""
    about = _read(place)
    try:
        return about is not None and about["listing"] == _listing(place, about["tag"])
    except OSError:  # another process is removing it
        return False


def all_built(kind: str) -> tuple[Built, ...]:
    """Return all directories of a kind, including damaged ones."""
    base = cache_home() / kind
    places = sorted(base.iterdir()) if base.is_dir() else []
    return tuple(
        Built(place.name, place, _read(place) or {}, is_whole(place))
        for place in places
        if place.is_dir() and not place.name.startswith(".")
    )


def remove(kind: str, key: str) -> bool:
    """Remove the directory of a key and its leftovers; return whether any existed."""
    place = cache_home() / kind / key
    if not place.parent.is_dir() or not (place.exists() or _leftovers(place)):
        return False
    with _locked(place, lambda _: None):
        _remove_all(place)
    return True


def known_keys(kind: str) -> tuple[str, ...]:
    """Return the keys of all directories that were built or begun."""
    base = cache_home() / kind
    names = [path.name for path in base.iterdir()] if base.is_dir() else []
    begun = {name[1:].removesuffix(".lock") for name in names if name.endswith(".lock")}
    return tuple(sorted(begun | {name for name in names if not name.startswith(".")}))


def size_of(place: Path) -> int:
    """Return the bytes in a directory."""
    return sum(status.st_size for _, status in walk_tree(str(place)))


def _build(place: Path, build: Build, tag: str) -> None:
    """Build in a temporary directory and move it, so that `place` is whole or does not exist."""
    with staged_tree(place.parent, f".{place.name}-") as staged:
        about = build(staged)
        set_writable(staged, writable=False)  # before the listing, which has the modes
        content = {
            "format": _FORMAT,
            "built": datetime.now(UTC).isoformat(timespec="seconds"),
            "listing": _listing(staged, tag),
            "tag": tag,
            **about,
        }
        staged.chmod(0o755)
        write_whole(staged / _ABOUT, json.dumps(content, indent=1).encode())
        settle_tree(staged, place)


def _read(place: Path) -> dict[str, Any] | None:
    try:
        about = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    valid = isinstance(about, dict) and about.get("format") == _FORMAT and "listing" in about
    # Those of earlier versions are of this interpreter.
    return {"tag": sys.implementation.cache_tag, **about} if valid else None


def _listing(place: Path, tag: str) -> str:
    """Return the digest of all paths below a directory and their attributes."""
    top = str(place)
    entries = {path[len(top) :]: (path, status) for path, status in walk_tree(top)}
    lines = [
        f"{name}\0{status.st_mode}\0{_attributes(path, status)}"
        for name, (path, status) in entries.items()
        if name != f"/{_ABOUT}" and ("__pycache__" not in name or _counts(name, entries, tag))
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _counts(name: str, entries: Container[str], tag: str) -> bool:
    """Whether an entry counts: not a `__pycache__`, and in one only the compiled modules."""
    folder, cache, inside = f"{name}/".partition("/__pycache__/")
    if not cache:
        return True
    module = inside.removesuffix(f".{tag}.pyc/")
    return module != inside and "/" not in module and f"{folder}/{module}.py" in entries


def _attributes(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)  # noqa: PTH115 - called thousands of times, and Path is slow
    # The time of a directory changes when it is moved or something is renamed in it.
    return "" if stat.S_ISDIR(status.st_mode) else f"{status.st_size}\0{status.st_mtime_ns}"


@contextmanager
def _locked(place: Path, message: Say) -> Iterator[None]:
    """Lock out other builders; the kernel releases the lock if this process ends."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message(f"Waiting for another process that is building {place.name}.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
