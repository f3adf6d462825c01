"""Download files of the Hub, several at once, and check each against the Hub's listing."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from envhub.errors import SourceCorrupt
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.git import pointer_id
from envhub.sources.hub import Hub, Listed
from envhub.sources.store import StoredFile

_THREADS = 8
"""Parallel downloads of small files; each waits for two answers of the Hub."""
_SMALL_BYTES = 2**20
_PROGRESS_INTERVAL = 0.5
"""Seconds between two reports about a large file."""

OnProgress = Callable[[int, int, int, int], None]
"""Files done, files in all, bytes done, bytes in all."""


def download(
    listing: list[Listed], ref: HubRef, hub: Hub, staged: Path, on_progress: OnProgress
) -> dict[str, StoredFile]:
    """Download files and check each, small ones several at once; stop at the first failure.

    Args:
        listing: The files to download.
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
    total_bytes, done_bytes = sum(file.size for file in listing), 0
    cache = staged / "cache"
    done: dict[str, StoredFile] = {}

    def fetch(file: Listed) -> StoredFile:
        content = _read(hub.download(ref.repo_id, commit, file.path, cache), file, ref)
        stored = _check(content, file, ref)
        target = staged / "files" / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return stored

    def report(partial_bytes: int = 0) -> None:
        received = min(done_bytes + partial_bytes, total_bytes)
        on_progress(len(done), len(listing), received, total_bytes)

    report()
    small = [file for file in listing if file.size <= _SMALL_BYTES]
    for file, stored in _fetch_in_threads(fetch, small):
        done[file.path] = stored
        done_bytes += file.size
        report()
    for file in listing:
        if file.size > _SMALL_BYTES:
            with _reporting(cache, report):
                stored = fetch(file)
            done[file.path] = stored
            done_bytes += file.size
            report()
    shutil.rmtree(cache, ignore_errors=True)
    return {file.path: done[file.path] for file in listing}


def _fetch_in_threads(
    fetch: Callable[[Listed], StoredFile], listing: list[Listed]
) -> Iterator[tuple[Listed, StoredFile]]:
    """Fetch files in several threads. A failure waits for running downloads, an interrupt not."""
    remaining = list(reversed(listing))
    finished = SimpleQueue[tuple[Listed, Future[StoredFile]]]()

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
    threads = [threading.Thread(target=work, daemon=True) for _ in listing[:_THREADS]]
    for thread in threads:
        thread.start()
    try:
        for _ in listing:
            file, future = finished.get()
            yield file, future.result()
    except Exception:
        remaining.clear()
        for thread in threads:
            thread.join()
        raise
    finally:
        remaining.clear()


@contextmanager
def _reporting(cache: Path, report: Callable[[int], None]) -> Iterator[None]:
    """Report regularly how many bytes of a file the client has written to its cache."""
    ended = threading.Event()

    def watch() -> None:
        most = 0
        while not ended.wait(_PROGRESS_INTERVAL):
            with suppress(OSError):  # the file has just been renamed
                received = sum(path.stat().st_size for path in cache.rglob("*.incomplete"))
                most = max(most, received)
                report(most)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read(path: Path, file: Listed, ref: HubRef) -> bytes:
    size = path.stat().st_size
    if size != file.size:  # checked before reading: the listed size bounds the memory
        raise SourceCorrupt(
            f"{file.path} of {ref} has {size} bytes instead of {file.size}. Nothing was executed."
        )
    return path.read_bytes()


def _check(content: bytes, file: Listed, ref: HubRef) -> StoredFile:
    sha256, blob_id = store.digests(content)
    large = file.large_sha256 is not None
    actual_id = pointer_id(sha256, len(content)) if large else blob_id
    if actual_id != file.blob_id:
        raise SourceCorrupt(
            f"{file.path} of {ref} differs from the commit: its id is {actual_id} instead of "
            f"{file.blob_id}. Nothing was executed."
        )
    return StoredFile(sha256, len(content), file.blob_id, large)
