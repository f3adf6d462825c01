"""From a Hub reference to files in the store, every byte checked. Nothing here executes them."""

import base64
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.hub import Hub, Listed
from envhub.sources.objects import FILE_MODES, BrokenProof, TreeEntry, pointer_id, walk
from envhub.sources.proof import fetch_objects, git_is_there
from envhub.sources.store import Manifest, Stored, StoredFile

MAX_FILES = 2000
MAX_BYTES = 500 * 2**20
_AT_ONCE = 8
"""Downloads of small files; each waits for two answers of the Hub."""
_SMALL = 2**20
_LOOK = 0.5
"""Seconds between two looks at how much of a large file has come."""
LEFT_OUT = (
    "*.arrow", "*.bin", "*.ckpt", "*.gguf", "*.h5", "*.hdf5", "*.mp4", "*.onnx", "*.parquet",
    "*.pkl", "*.pt", "*.pth", "*.safetensors", "*.tar", "*.tar.*", "*.tflite", "*.zip",
    ".gitattributes",
)  # fmt: skip
"""Checkpoints and data sets, which a benchmark's code does not need."""

OnProgress = Callable[[int, int, int, int], None]
"""Files done, files in all, bytes done, bytes in all."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A reference whose commit is known."""

    ref: HubRef
    commit: str


def resolve(ref: HubRef, hub: Hub) -> Pinned:
    """Ask the Hub once which commit a revision is.

    Raises:
        SourceUnavailable: It cannot say.
        SourceCorrupt: It answers a pinned commit with another.
    """
    commit = hub.resolve(ref.repo_id, ref.revision)
    if len(commit) != 40 or not set(commit) <= set("0123456789abcdef"):
        raise SourceCorrupt(f"{hub.endpoint} answered {ref} with {commit!r}, which is no commit.")
    if ref.pinned and commit != ref.revision:
        raise SourceCorrupt(
            f"{hub.endpoint} answered {ref} with another commit, {commit}. Nothing was fetched."
        )
    return Pinned(HubRef(ref.owner, ref.repo, commit, ref.path), commit)


def obtain(
    ref: HubRef, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> Stored:
    """The files of a pinned reference: from the store, or fetched into it.

    A damaged copy in the store is fetched anew; if that fails, it is refused, never used.

    Raises:
        SourceUnavailable: It is not in the store and cannot be fetched.
        SourceCorrupt: What came is not what was asked for.
    """
    assert ref.revision is not None
    try:
        stored = store.load(ref.repo_id, ref.revision)
    except SourceCorrupt as damage:
        store.discard(store.stored_path(ref.repo_id, ref.revision))
        try:
            return _fetched(ref, private=private, on_progress=on_progress)
        except SourceUnavailable as exc:
            raise SourceCorrupt(f"{damage} It was removed. {exc}") from exc
    if stored is None:
        stored = _fetched(ref, private=private, on_progress=on_progress)
    if ref.path not in stored.manifest.files:
        python = ", ".join(p for p in sorted(stored.manifest.files) if p.endswith(".py"))
        raise SourceUnavailable(f"{ref.repo_id} has no {ref.path} at that commit; it has {python}.")
    return stored


def _fetched(ref: HubRef, *, private: bool, on_progress: OnProgress) -> Stored:
    try:
        hub = Hub(private=private)
        pinned = resolve(ref, hub)
        return _fetch(pinned, hub, on_progress)
    except SourceUnavailable as exc:
        known = [commit for commit in store.commits(ref.repo_id) if commit != ref.revision]
        if not known:
            raise
        stored = ", ".join(known[:3])
        raise SourceUnavailable(f"{exc} Stored of this repository: {stored}.") from exc


def _fetch(pinned: Pinned, hub: Hub, on_progress: OnProgress) -> Stored:
    repo, commit = pinned.ref.repo_id, pinned.commit
    listing = hub.listing(repo, commit)
    objects: dict[str, bytes] = {}
    if git_is_there():
        objects = fetch_objects(f"{hub.endpoint}/{repo}", commit, hub.token())
        _compare(listing, _walk(commit, objects), pinned)
    wanted, left_out = _choose(listing, pinned)
    staged = store.stage()
    try:
        files = _download(wanted, pinned, hub, staged, on_progress)
        manifest = Manifest(
            repo=repo,
            commit=commit,
            endpoint=hub.endpoint,
            proof="git" if objects else "listing",
            files=files,
            left_out=left_out,
            objects={name: base64.b64encode(raw).decode() for name, raw in objects.items()},
        )
        return store.save(manifest, staged / "files")
    finally:
        store.discard(staged)


def _walk(commit: str, objects: dict[str, bytes]) -> dict[str, TreeEntry]:
    try:
        return walk(commit, objects)
    except BrokenProof as exc:
        raise SourceCorrupt(f"What git fetched is not {commit}: {exc}.") from exc


def _compare(listing: list[Listed], entries: dict[str, TreeEntry], pinned: Pinned) -> None:
    """The Hub's listing against the commit's own trees."""
    listed = {one.path: one.blob_id for one in listing}
    proven = {path: entry.blob_id for path, entry in entries.items()}
    if listed != proven:
        odd = sorted(
            path for path in listed.keys() | proven.keys() if listed.get(path) != proven.get(path)
        )
        raise SourceCorrupt(
            f"The Hub's listing of {pinned.ref} is not what the commit holds: {odd[0]} differs. "
            "Nothing was executed."
        )
    for path, entry in entries.items():
        if entry.mode not in FILE_MODES:
            kind = "a symbolic link" if entry.mode == "120000" else "no file"
            raise SourceCorrupt(f"{path} of {pinned.ref} is {kind}, which is not fetched.")


def _choose(listing: list[Listed], pinned: Pinned) -> tuple[list[Listed], tuple[str, ...]]:
    """The files to fetch, and those that are left out."""
    wanted = [one for one in listing if not _left_out(one.path)]
    left_out = tuple(sorted(one.path for one in listing if _left_out(one.path)))
    for one in wanted:
        parts = one.path.split("/")
        if one.path.startswith("/") or any(p in ("", ".", "..", ".git") for p in parts):
            raise SourceCorrupt(f"{pinned.ref} lists a file called {one.path!r}.")
    total = sum(one.size for one in wanted)
    if len(wanted) > MAX_FILES or total > MAX_BYTES:
        raise SourceUnavailable(
            f"{pinned.ref} has {len(wanted)} files of {total / 2**20:.0f} MB; a benchmark may have "
            f"{MAX_FILES} of {MAX_BYTES / 2**20:.0f} MB. Its author can move data to a dataset."
        )
    return wanted, left_out


def _left_out(path: str) -> bool:
    return any(fnmatch(path.rpartition("/")[2], pattern) for pattern in LEFT_OUT)


def _download(
    wanted: list[Listed], pinned: Pinned, hub: Hub, staged: Path, on_progress: OnProgress
) -> dict[str, StoredFile]:
    """Fetch files and check each; the first failure ends it.

    Small ones come several at once. Large ones come one by one in this thread, so that an
    interrupt need not wait for them.
    """
    total, done = sum(one.size for one in wanted), 0
    cache = staged / "cache"
    files: dict[str, StoredFile] = {}

    def fetch(one: Listed) -> StoredFile:
        content = hub.download(pinned.ref.repo_id, pinned.commit, one.path, cache).read_bytes()
        checked = _checked(content, one, pinned)
        target = staged / "files" / one.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return checked

    def tell(under_way: int = 0) -> None:
        on_progress(len(files), len(wanted), min(done + under_way, total), total)

    tell()
    small = [one for one in wanted if one.size <= _SMALL]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one, checked in zip(small, pool.map(fetch, small), strict=True):
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


def _checked(content: bytes, one: Listed, pinned: Pinned) -> StoredFile:
    sha256, blob_id = store.digests(content)
    large = one.large_sha256 is not None
    found = pointer_id(sha256, len(content)) if large else blob_id
    if found != one.blob_id or len(content) != one.size:
        raise SourceCorrupt(
            f"{one.path} of {pinned.ref} came with other bytes than the commit has: {found} "
            f"instead of {one.blob_id}. Nothing was executed."
        )
    return StoredFile(sha256, len(content), one.blob_id, large)
