"""Directories in the cache that are built once, whole or not at all, and read-only afterwards.

    <kind>/<key>/envhub.json    what it is, and the digest of a listing of all that is in it
                 ...            the content
    <kind>/.<key>.lock          held while it is built or removed
    <kind>/.<key>-*             what a builder that was killed has left behind

A listing has every path with its size, time, mode and target. It is made and compared at each use:
reading every byte of a simulator would take seconds, this takes milliseconds.
"""

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
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
"""Fills an empty directory, and says what it is."""

_ABOUT = "envhub.json"

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Built:
    """A directory of the cache."""

    key: str
    place: Path
    about: dict[str, Any]
    whole: bool


def ensure(kind: str, key: str, build: Build, *, message: Say = lambda _: None) -> Path:
    """The directory of a key: the one that is there if it is whole, else a new one.

    Args:
        kind: The directory of the cache that it lies in.
        key: Its name there.
        build: Fills it; called in one process at a time.
        message: Receives word of damage, and of waiting for another process.

    Raises:
        RuntimeUnavailable: The cache cannot be written to.
    """
    place = cache_home() / kind / key
    if is_whole(place):
        return place
    try:
        with _locked(place, message):
            if is_whole(place):  # another process was first
                return place
            if place.exists():
                message(f"{place} is damaged: building it again.")
            _remove_all(place)
            _build(place, build)
    except OSError as exc:
        raise RuntimeUnavailable(
            f"{exc.filename or place} cannot be written: {exc.strerror or exc}.",
            "Make room there, or set ENVHUB_HOME to another directory.",
        ) from exc
    return place


def is_whole(place: Path) -> bool:
    """Whether a directory is as it was when it had been built."""
    about = _read(place)
    try:
        return about is not None and about["listing"] == _listing(place)
    except OSError:  # another process removes it now
        return False


def all_built(kind: str) -> tuple[Built, ...]:
    """All of a kind that the cache has, the damaged ones included."""
    base = cache_home() / kind
    places = sorted(base.iterdir()) if base.is_dir() else []
    return tuple(
        Built(place.name, place, _read(place) or {}, is_whole(place))
        for place in places
        if place.is_dir() and not place.name.startswith(".")
    )


def remove(kind: str, key: str) -> bool:
    """Remove what the cache has of a key; says whether there was anything."""
    place = cache_home() / kind / key
    if not place.parent.is_dir() or not (place.exists() or _leftovers(place)):
        return False
    with _locked(place, lambda _: None):
        _remove_all(place)
    return True


def known_keys(kind: str) -> tuple[str, ...]:
    """Whatever was built or begun."""
    base = cache_home() / kind
    names = [path.name for path in base.iterdir()] if base.is_dir() else []
    begun = {name[1:].removesuffix(".lock") for name in names if name.endswith(".lock")}
    return tuple(sorted(begun | {name for name in names if not name.startswith(".")}))


def size_of(place: Path) -> int:
    """The bytes in a directory."""
    return sum(found.st_size for _, found in walk_tree(str(place)))


def _build(place: Path, build: Build) -> None:
    """Build beside the place, so that it is there whole or not at all."""
    with staged_tree(place.parent, f".{place.name}-") as staged:
        about = build(staged)
        set_writable(staged, writable=False)  # as the listing notes it
        content = {
            "format": _FORMAT,
            "built": datetime.now(UTC).isoformat(timespec="seconds"),
            "listing": _listing(staged),
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
    good = isinstance(about, dict) and about.get("format") == _FORMAT and "listing" in about
    return about if good else None


def _listing(place: Path) -> str:
    """The digest of all paths below a directory, with what the file system knows of them."""
    top = str(place)
    lines = [
        f"{path[len(top) :]}\0{found.st_mode}\0{_what(path, found)}"
        for path, found in walk_tree(top)
        if path != f"{top}/{_ABOUT}"
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def _what(path: str, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return os.readlink(path)  # noqa: PTH115 - thousands of them, and Path takes its time
    # The time of a directory changes when it is moved or something is renamed in it.
    return "" if stat.S_ISDIR(found.st_mode) else f"{found.st_size}\0{found.st_mtime_ns}"


@contextmanager
def _locked(place: Path, message: Say) -> Iterator[None]:
    """Keep other processes from building the same; the kernel lets go of it if this one ends."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message(f"Waiting for another process that builds {place.name}.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_all(place: Path) -> None:
    """Remove it, and what killed builders of it have left behind."""
    if place.exists():
        place.chmod(0o755)
        # Moved first, so that nobody sees half of it.
        gone = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        place.rename(gone / "old")
    for leftover in _leftovers(place):
        with suppress(OSError):  # an orphan of a killed builder may still be writing there
            discard_tree(leftover)


def _leftovers(place: Path) -> list[Path]:
    return list(place.parent.glob(f".{place.name}-*"))
