"""From a Hub reference to files in the store, every byte checked. Nothing here executes them."""

import base64
from dataclasses import dataclass
from fnmatch import fnmatch

from envhub.errors import HubUnreachable, SourceCorrupt, SourceUnavailable
from envhub.files import cache_home, discard_tree
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.download import OnProgress, download
from envhub.sources.git import FILE_MODES, BrokenProof, TreeEntry, fetch_objects, git_is_there, walk
from envhub.sources.hub import Hub, Listed
from envhub.sources.store import Manifest, Stored

MAX_FILES = 2000
MAX_BYTES = 500 * 2**20
LEFT_OUT = (
    "*.arrow", "*.bin", "*.ckpt", "*.gguf", "*.h5", "*.hdf5", "*.mp4", "*.onnx", "*.parquet",
    "*.pkl", "*.pt", "*.pth", "*.safetensors", "*.tar", "*.tar.*", "*.tflite", "*.zip",
    ".gitattributes",
)  # fmt: skip
"""Checkpoints and data sets, which a benchmark's code does not need."""


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
        SourceUnavailable: It is not in the store and cannot be fetched, or not be stored.
        SourceCorrupt: What came is not what was asked for.
    """
    try:
        return _obtain(ref, private=private, on_progress=on_progress)
    except OSError as exc:
        raise SourceUnavailable(
            f"{ref.repo_id} cannot be stored in {cache_home()}: {exc.strerror or exc}. Make room, "
            "or name a directory that you can write to in ENVHUB_HOME."
        ) from exc


def _obtain(ref: HubRef, *, private: bool, on_progress: OnProgress) -> Stored:
    assert ref.revision is not None
    try:
        stored = store.load(ref.repo_id, ref.revision)
    except SourceCorrupt as damage:
        discard_tree(store.stored_path(ref.repo_id, ref.revision))
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
        if not known and not isinstance(exc, HubUnreachable):
            raise
        stored = f"Stored of this repository: {', '.join(known[:3]) or 'nothing'}."
        raise SourceUnavailable(f"{exc} {stored}") from exc


def _fetch(pinned: Pinned, hub: Hub, on_progress: OnProgress) -> Stored:
    repo, commit = pinned.ref.repo_id, pinned.commit
    listing = hub.listing(repo, commit)
    objects: dict[str, bytes] = {}
    if git_is_there():
        objects = fetch_objects(f"{hub.endpoint}/{repo}", commit, hub.token())
        _compare(listing, _walk(commit, objects), pinned)
    wanted, left_out = _choose(listing, pinned)
    with store.stage() as staged:
        files = download(wanted, pinned.ref, hub, staged, on_progress)
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
    wanted = [one for one in listing if not is_left_out(one.path)]
    left_out = tuple(sorted(one.path for one in listing if is_left_out(one.path)))
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


def is_left_out(path: str) -> bool:
    """Whether a file is not fetched, by its name."""
    return any(fnmatch(path.rpartition("/")[2], pattern) for pattern in LEFT_OUT)
