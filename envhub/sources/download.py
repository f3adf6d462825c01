"""Files of the Hub: fetched, several at once, and checked against the listing."""

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

_AT_ONCE = 8
"""Downloads of small files; each waits for two answers of the Hub."""
_SMALL = 2**20
_LOOK = 0.5
"""Seconds between two looks at how much of a large file has come."""

OnProgress = Callable[[int, int, int, int], None]
"""Files done, files in all, bytes done, bytes in all."""


def download(
    wanted: list[Listed], ref: HubRef, hub: Hub, staged: Path, on_progress: OnProgress
) -> dict[str, StoredFile]:
    """Fetch files and check each, small ones several at once; the first failure ends it.

    Args:
        wanted: The files.
        ref: Where they are, pinned.
        hub: The Hub to ask.
        staged: Where its `files` are to go.
        on_progress: Receives how far it is.

    Raises:
        SourceUnavailable: One could not be had.
        SourceCorrupt: One has other bytes than the listing says.
    """
    assert ref.revision is not None
    commit = ref.revision
    total, done = sum(one.size for one in wanted), 0
    cache = staged / "cache"
    files: dict[str, StoredFile] = {}

    def fetch(one: Listed) -> StoredFile:
        content = _read(hub.download(ref.repo_id, commit, one.path, cache), one, ref)
        checked = _checked(content, one, ref)
        target = staged / "files" / one.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return checked

    def tell(under_way: int = 0) -> None:
        on_progress(len(files), len(wanted), min(done + under_way, total), total)

    tell()
    for one, checked in _together(fetch, [one for one in wanted if one.size <= _SMALL]):
        files[one.path] = checked
        done += one.size
        tell()
    for one in wanted:
        if one.size > _SMALL:
            with _watching(cache, tell):
                checked = fetch(one)
            files[one.path] = checked
            done += one.size
            tell()
    shutil.rmtree(cache, ignore_errors=True)
    return {one.path: files[one.path] for one in wanted}


def _together(
    fetch: Callable[[Listed], StoredFile], wanted: list[Listed]
) -> Iterator[tuple[Listed, StoredFile]]:
    """Fetch files in several threads. A failure waits for what is under way, an interrupt not."""
    left, fetched = list(reversed(wanted)), SimpleQueue[tuple[Listed, Future[StoredFile]]]()

    def work() -> None:
        while left:
            with suppress(IndexError):  # another thread took the last one
                one, future = left.pop(), Future[StoredFile]()
                try:
                    future.set_result(fetch(one))
                except BaseException as exc:  # noqa: BLE001, RUF100 - handed to the caller
                    future.set_exception(exc)
                fetched.put((one, future))

    # An executor's threads would be waited for when the interpreter ends.
    threads = [threading.Thread(target=work, daemon=True) for _ in wanted[:_AT_ONCE]]
    for thread in threads:
        thread.start()
    try:
        for _ in wanted:
            one, future = fetched.get()
            yield one, future.result()
    except Exception:
        left.clear()
        for thread in threads:
            thread.join()
        raise
    finally:
        left.clear()


@contextmanager
def _watching(cache: Path, tell: Callable[[int], None]) -> Iterator[None]:
    """Tell now and then how much of a file has come, as the client's directory shows it."""
    ended = threading.Event()

    def watch() -> None:
        most = 0
        while not ended.wait(_LOOK):
            with suppress(OSError):  # it has just been renamed
                now = sum(path.stat().st_size for path in cache.rglob("*.incomplete"))
                most = max(most, now)
                tell(most)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read(path: Path, one: Listed, ref: HubRef) -> bytes:
    size = path.stat().st_size
    if size != one.size:  # before it is read: the Hub's promise is what bounds the memory
        raise SourceCorrupt(
            f"{one.path} of {ref} came with {size} bytes instead of {one.size}. Nothing was "
            "executed."
        )
    return path.read_bytes()


def _checked(content: bytes, one: Listed, ref: HubRef) -> StoredFile:
    sha256, blob_id = store.digests(content)
    large = one.large_sha256 is not None
    found = pointer_id(sha256, len(content)) if large else blob_id
    if found != one.blob_id:
        raise SourceCorrupt(
            f"{one.path} of {ref} came with other bytes than the commit has: {found} "
            f"instead of {one.blob_id}. Nothing was executed."
        )
    return StoredFile(sha256, len(content), one.blob_id, large)
