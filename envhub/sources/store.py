"""The store of fetched files: read-only, and checked byte by byte at every use.

    sources/<owner>--<repo>/<commit>/manifest.json    the list of files, and the proof
                                     files/...        the files themselves

That is where benchmarks are; other kinds of files have other folders: see `profiles`.

If git was available, the manifest has the git objects, so that every later use checks the files
against the commit's forty digits, whatever happened to the disk. The manifest itself is checked
against its digest, which is noted in the user's state directory, as for everything else in the
cache: see `directories`.

    fetched/<owner>--<repo>/<commit>.json           in the state directory
    fetched/<folder>/<owner>--<repo>/<commit>.json  for what is not a benchmark
"""

import base64
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from envhub import directories
from envhub.directories import DirectoryNote, digest
from envhub.errors import SourceCorrupt
from envhub.files import cache_home, discard_tree, settle_tree, staged_tree, write_whole
from envhub.sources.git import BrokenProof, pointer_id, walk
from envhub.sources.profiles import BENCHMARK, Profile

Proof = Literal["git", "listing"]
FORMAT = 1
_STAGED_PREFIX = ".staged-"
PARTIAL_PREFIX = ".partial-"
_PIECE = 2**20
"""Bytes of a file that are hashed at a time: some files are larger than the memory."""
_ABANDONED = 24 * 3600.0
"""Seconds after which a staged directory belongs to a process that was killed."""
_GIVEN_UP = 7 * 24 * 3600.0
"""Seconds after which nobody is going to continue a fetch."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the store."""

    sha256: str
    size: int
    blob_id: str
    """The id in the commit's tree."""
    large: bool = False
    """Whether the tree has a pointer to large-file storage instead of the file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The stored files of a commit."""

    repo: str
    commit: str
    endpoint: str
    proof: Proof
    files: Mapping[str, StoredFile]
    left_out: tuple[str, ...] = ()
    """Files of the commit that were not fetched, because of their names."""
    objects: Mapping[str, str] = field(default_factory=dict)
    """The contents of the commit and its trees in base64, by id."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Checked files in the store."""

    directory: Path
    manifest: Manifest


def stored_path(repo: str, commit: str, profile: Profile = BENCHMARK) -> Path:
    """Return the directory of a commit in the store."""
    return cache_home() / profile.folder / repo.replace("/", "--") / commit


def load(repo: str, commit: str, profile: Profile = BENCHMARK) -> Stored | None:
    """Return a commit from the store, with every byte checked; None if it is not stored.

    Raises:
        SourceCorrupt: The stored copy is damaged.
    """
    place = stored_path(repo, commit, profile)
    if not place.exists():
        return None
    try:
        content = (place / "manifest.json").read_bytes()
        manifest = _parse(content)
        _check_known(manifest.proof, content, recall(repo, commit, profile))
        _check(manifest, repo, commit, place / "files")
    except (OSError, ValueError, KeyError, RecursionError, msgspec.MsgspecError) as exc:
        raise _damaged(repo, commit, exc) from exc
    return Stored(place / "files", manifest)


def recall(repo: str, commit: str, profile: Profile = BENCHMARK) -> DirectoryNote | None:
    """Return what is known of a fetched commit; None if nothing is."""
    return directories.recall(_note(repo, commit, profile))


def remember(repo: str, commit: str, known: DirectoryNote, profile: Profile = BENCHMARK) -> None:
    """Note what is known of a fetched commit.

    Where that cannot be written, the commit stays unknown: it is fetched or checked again.
    """
    with suppress(OSError):
        directories.remember(_note(repo, commit, profile), known)


def commits(repo: str, profile: Profile = BENCHMARK) -> tuple[str, ...]:
    """Return the stored commits of a repository."""
    place = stored_path(repo, "x", profile).parent
    names = [path.name for path in place.iterdir() if path.is_dir()] if place.is_dir() else []
    return tuple(sorted(name for name in names if not name.startswith(".")))


def save(manifest: Manifest, staged: Path, profile: Profile = BENCHMARK) -> Stored:
    """Move fetched files into the store, all or none.

    Args:
        manifest: Describes the files.
        staged: The directory from `stage` or `resume`, with the files in its `files`.
        profile: The kind of the files.
    """
    place = stored_path(manifest.repo, manifest.commit, profile)
    content = _render(manifest)
    write_whole(staged / "manifest.json", content)
    _check(manifest, manifest.repo, manifest.commit, staged / "files")
    # First, so that whoever finds the files finds their digest.
    _remember(manifest, content, profile)
    try:
        settle_tree(staged, place)
    except OSError:  # another process was faster; its copy may be in use, and is as good
        if (stored := load(manifest.repo, manifest.commit, profile)) is None:
            raise
        return stored
    return Stored(place / "files", manifest)


def upgrade(manifest: Manifest, profile: Profile = BENCHMARK) -> Stored:
    """Replace the manifest of a stored commit by one with a better proof.

    Raises:
        SourceCorrupt: The stored files are not those of the proof.
    """
    place = stored_path(manifest.repo, manifest.commit, profile)
    content = _render(manifest)
    try:
        _check(manifest, manifest.repo, manifest.commit, place / "files")
    except ValueError as exc:
        raise _damaged(manifest.repo, manifest.commit, exc) from exc
    place.chmod(0o755)
    try:
        write_whole(place / "manifest.json", content, mode=0o444)
    finally:
        place.chmod(0o555)
    _remember(manifest, content, profile)
    return Stored(place / "files", manifest)


@contextmanager
def stage() -> Iterator[Path]:
    """Create a temporary directory in the store's file system, with an empty `files` in it."""
    base = cache_home() / BENCHMARK.folder
    _remove_older(base, _STAGED_PREFIX, _ABANDONED)
    with staged_tree(base, _STAGED_PREFIX) as staged:
        (staged / "files").mkdir()
        yield staged


@contextmanager
def resume(repo: str, commit: str, profile: Profile) -> Iterator[Path]:
    """A directory for the files of a commit, with what an earlier fetch has left in its `files`.

    Other processes that fetch the same wait. Whatever is there at the end is kept, until it is
    saved or nobody has continued it for long.
    """
    base = cache_home() / profile.folder
    _remove_older(base, PARTIAL_PREFIX, _GIVEN_UP)
    place = base / f"{PARTIAL_PREFIX}{repo.replace('/', '--')}-{commit}"
    with directories.locked(place):
        (place / "files").mkdir(parents=True, exist_ok=True)
        os.utime(place)
        try:
            yield place
        finally:
            if place.is_dir() and not any((place / "files").iterdir()):
                discard_tree(place)


def file_ids(path: Path, *, large: bool) -> tuple[str, str]:
    """Return the sha256 of a file, and its id in a commit's tree.

    Args:
        path: The file.
        large: Whether the tree has a pointer to it instead.
    """
    size = path.stat().st_size
    sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
            if not large:
                blob.update(piece)
    digest = sha256.hexdigest()
    return digest, pointer_id(digest, size) if large else blob.hexdigest()


def _remove_older(base: Path, prefix: str, seconds: float) -> None:
    for leftover in base.glob(f"{prefix}*"):
        if time.time() - leftover.stat().st_mtime > seconds:
            discard_tree(leftover)


def _note(repo: str, commit: str, profile: Profile) -> str:
    folder = "fetched" if profile == BENCHMARK else f"fetched/{profile.folder}"
    return f"{folder}/{repo.replace('/', '--')}/{commit}"


def _damaged(repo: str, commit: str, problem: Exception) -> SourceCorrupt:
    return SourceCorrupt(f"The stored copy of {repo}@{commit} is damaged: {problem}.")


def _remember(manifest: Manifest, content: bytes, profile: Profile) -> None:
    before = recall(manifest.repo, manifest.commit, profile)
    known = DirectoryNote(digest(content), before.branch_at if before else "")
    remember(manifest.repo, manifest.commit, known, profile)


def _check_known(proof: Proof, content: bytes, known: DirectoryNote | None) -> None:
    """Check a manifest against the digest that was kept when its files were fetched.

    Raises:
        ValueError: It has changed, or nothing is known of it and it does not prove itself.
    """
    if known is None:
        if proof != "git":
            raise ValueError("nothing shows that its manifest is the one that was fetched")
    elif digest(content) != known.manifest:
        raise ValueError("its manifest has changed since it was fetched")


def _render(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1).encode()


def _parse(text: bytes) -> Manifest:
    content = msgspec.json.decode(text, type=dict[str, Any])
    if content.pop("format") != FORMAT:
        raise ValueError("its manifest has an unknown format")
    return msgspec.convert(content, Manifest)


def _check(manifest: Manifest, repo: str, commit: str, files: Path) -> None:
    """Check every byte against the manifest, and the manifest against the commit.

    Raises:
        ValueError: A check failed.
    """
    if (manifest.repo, manifest.commit) != (repo, commit):
        raise ValueError(f"its manifest is that of {manifest.repo}@{manifest.commit}")
    present = {
        str(path.relative_to(files))
        for path in files.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    if present != set(manifest.files):
        different = sorted(present ^ set(manifest.files))
        raise ValueError(f"{different[0]} is missing or does not belong there")
    for name, entry in manifest.files.items():
        _check_file(files / name, name, entry)
    if manifest.proof == "git":
        _check_tree(manifest)


def _check_file(path: Path, name: str, entry: StoredFile) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{name} is not a regular file")
    sha256, tree_id = file_ids(path, large=entry.large)
    if (sha256, tree_id) != (entry.sha256, entry.blob_id):
        raise ValueError(f"{name} has different content")


def _check_tree(manifest: Manifest) -> None:
    objects = {name: base64.b64decode(text) for name, text in manifest.objects.items()}
    try:
        entries = walk(manifest.commit, objects)
    except BrokenProof as exc:
        raise ValueError(str(exc)) from exc
    for name, entry in manifest.files.items():
        if name not in entries or entries[name].blob_id != entry.blob_id:
            raise ValueError(f"{name} differs from the commit")
    if missing := sorted(entries.keys() - set(manifest.files) - set(manifest.left_out)):
        raise ValueError(f"{missing[0]} is missing")
