"""Download files of the Hub, several at once, and check each against the Hub's listing."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import BinaryIO

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.hub import Hub, HubFile
from envhub.sources.store import StoredFile

_THREADS = 8
"""Parallel downloads of small files; each waits for an answer of the Hub."""
_SMALL_BYTES = 2**20
_PROGRESS_INTERVAL = 0.5
"""Seconds between two reports about a large file."""
_SECONDS = 300.0
"""For all files together, in addition to the time that their bytes may take."""
_BYTES_PER_SECOND = 2**16
"""The slowest link that is waited for, half a megabit: 500 MB may take two hours and a half."""

OnProgress = Callable[[int, int, int, int], None]
"""Files done, files in all, bytes done, bytes in all."""


def download(
    listing: list[HubFile], ref: HubRef, hub: Hub, staged: Path, on_progress: OnProgress
) -> dict[str, StoredFile]:
    """Download files and check each, small ones several at once; stop at the first failure.

    What an earlier download has left is used, as far as it is the beginning of the right file.

    Args:
        listing: The files to download. Their paths have been checked.
        ref: Their repository and commit.
        hub: The Hub to ask.
        staged: The directory whose `files` receives them.
        on_progress: Receives the progress.

    Raises:
        SourceUnavailable: A file could not be downloaded.
        SourceCorrupt: A file differs from the listing.
    """
    assert ref.revision is not None
    commit = ref.revision
    total_bytes = sum(file.size for file in listing)
    place = _Place(staged / "files", {file.path for file in listing})
    received: dict[str, int] = {}
    done: dict[str, StoredFile] = {}

    def fetch(file: HubFile) -> StoredFile:
        def on_bytes(count: int) -> None:
            place.check()
            received[file.path] = count

        with place.open(file.path) as into:
            earlier = into.tell()
            if earlier < file.size or not earlier:
                hub.download(ref.repo_id, commit, file.path, file.size, into, on_bytes)
        try:
            stored = _check(place.files / file.path, file, ref)
        except SourceCorrupt:
            place.remove(file.path)
            if not earlier:
                raise
            return fetch(file)  # what was there is not the beginning of it
        received[file.path] = file.size
        return stored

    def report() -> None:
        on_progress(len(done), len(listing), sum(list(received.values())), total_bytes)

    small = [file for file in listing if file.size <= _SMALL_BYTES]
    large = [file for file in listing if file.size > _SMALL_BYTES]
    seconds = _SECONDS + total_bytes / _BYTES_PER_SECOND
    ends = time.monotonic() + seconds
    report()
    try:
        for files, threads in ((small, _THREADS), (large, 1)):
            for finished in _fetch_in_threads(fetch, files, threads):
                if finished is not None:
                    file, stored = finished
                    done[file.path] = stored
                report()
                if time.monotonic() > ends:
                    raise SourceUnavailable(
                        f"{ref} was not fetched within {seconds:.0f} seconds: "
                        f"{sum(received.values())} of {total_bytes} bytes came. Try again, or "
                        "check HF_ENDPOINT if it is set."
                    )
    finally:
        place.close()
    return {file.path: done[file.path] for file in listing}


class _Stopped(Exception):
    """Nobody waits for this file any more."""


class _Place:
    """The directory of downloaded files. Once it is closed, no thread creates anything there."""

    def __init__(self, files: Path, paths: Collection[str]) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._closed = False
        for path in [*files.rglob("*")]:
            plain = path.is_dir() and not path.is_symlink()
            if not plain and str(path.relative_to(files)) not in paths:
                path.unlink()  # of an earlier version, which fetched other files

    def open(self, path: str) -> BinaryIO:
        """Open a file, new or of an earlier download, to continue it at its end."""
        target = self.files / path
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._lock:
            self.check()
            target.parent.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(target, flags, 0o666), "wb")
        file.seek(0, os.SEEK_END)
        return file

    def remove(self, path: str) -> None:
        """Remove a file."""
        (self.files / path).unlink()

    def check(self) -> None:
        """Raise `_Stopped` if the directory is closed."""
        if self._closed:
            raise _Stopped

    def close(self) -> None:
        """Let no thread create anything any more; downloads end with the next bytes."""
        with self._lock:
            self._closed = True


def _fetch_in_threads(
    fetch: Callable[[HubFile], StoredFile], listing: list[HubFile], most: int
) -> Iterator[tuple[HubFile, StoredFile] | None]:
    """Fetch files in several threads; yields None if for a while no file was finished."""
    remaining = list(reversed(listing))
    finished = SimpleQueue[tuple[HubFile, Future[StoredFile]]]()

    def work() -> None:
        while remaining:
            with suppress(IndexError):  # another thread took the last file
                file, future = remaining.pop(), Future[StoredFile]()
                try:
                    future.set_result(fetch(file))
                except BaseException as exc:  # noqa: BLE001, RUF100 - handed to the caller
                    future.set_exception(exc)
                finished.put((file, future))

    # Not an executor: the interpreter would wait for its threads before it ends.
    for _ in listing[:most]:
        threading.Thread(target=work, daemon=True).start()
    left = len(listing)
    try:
        while left:
            try:
                file, future = finished.get(timeout=_PROGRESS_INTERVAL)
            except Empty:
                yield None
            else:
                left -= 1
                yield file, future.result()
    finally:
        remaining.clear()


def _check(path: Path, file: HubFile, ref: HubRef) -> StoredFile:
    size = path.stat().st_size
    if size != file.size:
        raise SourceCorrupt(
            f"{file.path} of {ref} has {size} bytes instead of {file.size}. Nothing was executed."
        )
    large = file.large_sha256 is not None
    sha256, actual_id = store.file_ids(path, large=large)
    if actual_id != file.blob_id:
        raise SourceCorrupt(
            f"{file.path} of {ref} differs from the commit: its id is {actual_id} instead of "
            f"{file.blob_id}. Nothing was executed."
        )
    return StoredFile(sha256, size, file.blob_id, large)
