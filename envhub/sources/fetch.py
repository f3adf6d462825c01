"""Fetch the files of a Hub reference into the store and check every byte. Nothing is executed."""

import base64
from dataclasses import dataclass
from fnmatch import fnmatch

from envhub.errors import HubUnreachable, SourceCorrupt, SourceUnavailable
from envhub.files import cache_home, discard_tree
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.download import OnProgress, download
from envhub.sources.git import (
    FILE_MODES,
    LINK_MODE,
    BrokenProof,
    TreeEntry,
    fetch_objects,
    has_git,
    walk,
)
from envhub.sources.hub import Hub, Listed
from envhub.sources.store import Manifest, Stored

MAX_FILES = 2000
MAX_BYTES = 500 * 2**20
LEFT_OUT = (
    "*.arrow", "*.bin", "*.ckpt", "*.gguf", "*.h5", "*.hdf5", "*.mp4", "*.onnx", "*.parquet",
    "*.pkl", "*.pt", "*.pth", "*.safetensors", "*.tar", "*.tar.*", "*.tflite", "*.zip",
    ".gitattributes",
)  # fmt: skip
"""Checkpoints and data sets: a benchmark's code does not need them."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A reference whose commit is known."""

    ref: HubRef
    commit: str


def resolve(ref: HubRef, hub: Hub) -> Pinned:
    """Ask the Hub once which commit a revision currently means.

    Raises:
        SourceUnavailable: The Hub cannot be asked, or does not know the revision.
        SourceCorrupt: The Hub answers a pinned commit with a different one.
    """
    commit = hub.resolve(ref.repo_id, ref.revision)
    if len(commit) != 40 or not set(commit) <= set("0123456789abcdef"):
        raise SourceCorrupt(
            f"{hub.endpoint} answered {ref} with {commit!r}, which is not a commit."
        )
    if ref.pinned and commit != ref.revision:
        raise SourceCorrupt(
            f"{hub.endpoint} answered {ref} with another commit: {commit}. Nothing was fetched."
        )
    return Pinned(HubRef(ref.owner, ref.repo, commit, ref.path), commit)


def is_left_out(path: str) -> bool:
    """Whether a file is not fetched because of its name."""
    return any(fnmatch(path.rpartition("/")[2], pattern) for pattern in LEFT_OUT)


def obtain(
    ref: HubRef, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> Stored:
    """Return the stored files of a pinned reference; fetch them first if necessary.

    A damaged copy in the store is fetched again; if that fails, it is refused, never used.

    Raises:
        SourceUnavailable: The files are not stored and cannot be fetched or written.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    try:
        return _obtain(ref, private=private, on_progress=on_progress)
    except OSError as exc:
        raise SourceUnavailable(
            f"{ref.repo_id} cannot be stored in {cache_home()}: {exc.strerror or exc}. Free some "
            "space, or set ENVHUB_HOME to a writable directory."
        ) from exc


def _obtain(ref: HubRef, *, private: bool, on_progress: OnProgress) -> Stored:
    assert ref.revision is not None
    try:
        stored = store.load(ref.repo_id, ref.revision)
    except SourceCorrupt as damage:
        discard_tree(store.stored_path(ref.repo_id, ref.revision))
        try:
            return _fetch(ref, private=private, on_progress=on_progress)
        except SourceUnavailable as exc:
            raise SourceCorrupt(f"{damage} It was removed. {exc}") from exc
    if stored is None:
        stored = _fetch(ref, private=private, on_progress=on_progress)
    if ref.path not in stored.manifest.files:
        python = ", ".join(p for p in sorted(stored.manifest.files) if p.endswith(".py"))
        raise SourceUnavailable(f"{ref.repo_id} has no {ref.path} at that commit; it has {python}.")
    return stored


def _fetch(ref: HubRef, *, private: bool, on_progress: OnProgress) -> Stored:
    try:
        hub = Hub(private=private)
        pinned = resolve(ref, hub)
        return _fetch_pinned(pinned, hub, on_progress)
    except SourceUnavailable as exc:
        others = [commit for commit in store.commits(ref.repo_id) if commit != ref.revision]
        if not others and not isinstance(exc, HubUnreachable):
            raise
        stored = f"Stored commits: {', '.join(others[:3]) or 'none'}."
        raise SourceUnavailable(f"{exc} {stored}") from exc


def _fetch_pinned(pinned: Pinned, hub: Hub, on_progress: OnProgress) -> Stored:
    repo, commit = pinned.ref.repo_id, pinned.commit
    listing = hub.listing(repo, commit)
    objects: dict[str, bytes] = {}
    if has_git():
        objects = fetch_objects(f"{hub.endpoint}/{repo}", commit, hub.token())
        _compare(listing, _walk(commit, objects), pinned)
    chosen, left_out = _choose(listing, pinned)
    with store.stage() as staged:
        files = download(chosen, pinned.ref, hub, staged, on_progress)
        manifest = Manifest(
            repo=repo,
            commit=commit,
            endpoint=hub.endpoint,
            proof="git" if objects else "listing",
            files=files,
            left_out=left_out,
            objects={name: base64.b64encode(raw).decode() for name, raw in objects.items()},
        )
        return store.save(manifest, staged)


def _walk(commit: str, objects: dict[str, bytes]) -> dict[str, TreeEntry]:
    try:
        return walk(commit, objects)
    except BrokenProof as exc:
        raise SourceCorrupt(f"The objects from git are not those of {commit}: {exc}.") from exc


def _compare(listing: list[Listed], entries: dict[str, TreeEntry], pinned: Pinned) -> None:
    """Compare the Hub's listing with the commit's own trees."""
    listed = {file.path: file.blob_id for file in listing}
    proven = {path: entry.blob_id for path, entry in entries.items()}
    if listed != proven:
        different = sorted(
            path for path in listed.keys() | proven.keys() if listed.get(path) != proven.get(path)
        )
        raise SourceCorrupt(
            f"The Hub's listing of {pinned.ref} does not match the commit: {different[0]} differs. "
            "Nothing was executed."
        )
    for path, entry in entries.items():
        if entry.mode not in FILE_MODES:
            found = "a symbolic link" if entry.mode == LINK_MODE else "not a regular file"
            raise SourceCorrupt(f"{path} of {pinned.ref} is {found}; only files are fetched.")


def _choose(listing: list[Listed], pinned: Pinned) -> tuple[list[Listed], tuple[str, ...]]:
    """Return the files to fetch, and the paths of those that are left out."""
    chosen = [file for file in listing if not is_left_out(file.path)]
    left_out = tuple(sorted(file.path for file in listing if is_left_out(file.path)))
    for file in chosen:
        parts = file.path.split("/")
        if file.path.startswith("/") or any(p in ("", ".", "..", ".git") for p in parts):
            raise SourceCorrupt(f"{pinned.ref} lists a file at the forbidden path {file.path!r}.")
    total = sum(file.size for file in chosen)
    if len(chosen) > MAX_FILES or total > MAX_BYTES:
        raise SourceUnavailable(
            f"{pinned.ref} has {len(chosen)} files of {total / 2**20:.0f} MB; a benchmark may have "
            f"{MAX_FILES} of {MAX_BYTES / 2**20:.0f} MB. Its author can move data to a dataset."
        )
    return chosen, left_out
