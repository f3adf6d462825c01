"""Fetch the files of a Hub reference into the store and check every byte. Nothing is executed."""

import base64
import unicodedata
from contextlib import suppress
from dataclasses import replace

from envhub.directories import DirectoryNote, hold
from envhub.errors import HubUnreachable, SourceCorrupt, SourceUnavailable
from envhub.files import advise_on_space, cache_home, discard_tree
from envhub.offline import is_offline
from envhub.process import EXHAUSTED
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
    is_on_branch,
    walk,
)
from envhub.sources.hub import Hub, HubFile, endpoint
from envhub.sources.profiles import BENCHMARK, Profile
from envhub.sources.store import Manifest, Stored


def resolve(ref: HubRef, hub: Hub) -> HubRef:
    """Ask the Hub once which commit a revision currently means; return the reference pinned to it.

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
    return HubRef(ref.owner, ref.repo, commit, ref.path)


def obtain(
    ref: HubRef, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> Stored:
    """Return the stored files of a benchmark's pinned reference; fetch them first if necessary.

    Raises:
        SourceUnavailable: The files are not stored and cannot be fetched or written, or the
            reference names a file that is not among them.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    stored = obtain_files(ref, BENCHMARK, private=private, on_progress=on_progress)
    if ref.path not in stored.manifest.files:
        python = ", ".join(p for p in sorted(stored.manifest.files) if p.endswith(".py"))
        raise SourceUnavailable(f"{ref.repo_id} has no {ref.path} at that commit; it has {python}.")
    return stored


def obtain_files(
    ref: HubRef,
    profile: Profile,
    *,
    private: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Stored:
    """Return the stored files of a commit; fetch them first if necessary.

    A damaged copy in the store is fetched again; if that fails, it is refused, never used.

    Args:
        ref: The repository and the commit.
        profile: The kind of its files.
        private: Whether to send the user's token.
        on_progress: Receives the progress of downloads.

    Raises:
        SourceUnavailable: The files are not stored and cannot be fetched or written.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    assert ref.revision is not None
    place = store.stored_path(ref.repo_id, ref.revision, profile)
    if place.exists():
        hold(place)
    try:
        stored = _obtain(ref, profile, private=private, on_progress=on_progress)
        hold(place)
        return stored
    except OSError as exc:
        if exc.errno in EXHAUSTED:
            raise
        raise SourceUnavailable(
            f"{ref.repo_id} cannot be stored in {cache_home()}: {exc.strerror or exc}. "
            f"{advise_on_space(exc, 'ENVHUB_CACHE_DIR')}"
        ) from exc


def _obtain(ref: HubRef, profile: Profile, *, private: bool, on_progress: OnProgress) -> Stored:
    assert ref.revision is not None
    try:
        stored = store.load(ref.repo_id, ref.revision, profile)
        if stored is not None:
            stored = _strengthen(stored, ref, profile, private=private)
    except SourceCorrupt as damage:
        discard_tree(store.stored_path(ref.repo_id, ref.revision, profile))
        try:
            stored = _fetch(ref, profile, private=private, on_progress=on_progress)
        except SourceUnavailable as exc:
            raise SourceCorrupt(f"{damage} It was removed. {exc}") from exc
    if stored is None:
        stored = _fetch(ref, profile, private=private, on_progress=on_progress)
    return stored


def leads_to(ref: HubRef, *, private: bool = False) -> bool:
    """Whether a branch or tag of the repository leads to a fetched commit.

    Only then did somebody put the commit there who may write to the repository.

    Raises:
        SourceUnavailable: The Hub cannot be asked, and was not asked before.
    """
    assert ref.revision is not None
    known = store.recall(ref.repo_id, ref.revision)
    if known is not None and known.branch_at == endpoint():
        return True
    return _ask_branches(ref.repo_id, ref.revision, Hub(private=private))


def _ask_branches(repo: str, commit: str, hub: Hub) -> bool:
    """Ask the Hub whether a branch or tag leads to a commit, and remember it if so."""
    if has_git():
        found = is_on_branch(hub.page(repo), commit, hub.token())
    else:
        found = hub.is_on_branch(repo, commit)
    known = store.recall(repo, commit)
    if found and known is not None:
        store.remember(repo, commit, DirectoryNote(known.manifest, hub.endpoint))
    return found


def _strengthen(stored: Stored, ref: HubRef, profile: Profile, *, private: bool) -> Stored:
    """Return a stored copy that is as well proven as it can be here.

    Raises:
        SourceCorrupt: The copy is not what would be fetched.
        SourceUnavailable: The proof cannot be fetched.
    """
    manifest = stored.manifest
    copy = f"The stored copy of {manifest.repo}@{manifest.commit}"
    names = (*manifest.files, *manifest.left_out)
    if {name for name in names if not profile.wants(name)} != set(manifest.left_out):
        raise SourceCorrupt(f"{copy} does not have the files that it should.")
    if manifest.proof == "git":
        return stored
    if manifest.endpoint != endpoint():
        raise SourceCorrupt(f"{copy} was only checked against the listing of {manifest.endpoint}.")
    if not has_git():
        return stored
    hub = Hub(private=private, repositories=profile.repositories)
    try:
        objects = fetch_objects(hub.page(manifest.repo), manifest.commit, hub.token())
    except SourceUnavailable as exc:
        raise SourceUnavailable(
            f"{copy} was only checked against the Hub's listing. {exc}"
        ) from exc
    _check_modes(_walk(manifest.commit, objects), ref)
    stored = store.upgrade(replace(manifest, proof="git", objects=_encoded(objects)), profile)
    _note_branches(manifest.repo, manifest.commit, hub, profile)
    return stored


def _note_branches(repo: str, commit: str, hub: Hub, profile: Profile) -> None:
    """Ask whether a branch leads to the commit of a benchmark, whose code is going to be run."""
    if profile == BENCHMARK:
        with suppress(SourceUnavailable):  # asked again when it matters
            _ask_branches(repo, commit, hub)


def _encoded(objects: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(raw).decode() for name, raw in objects.items()}


def _fetch(ref: HubRef, profile: Profile, *, private: bool, on_progress: OnProgress) -> Stored:
    try:
        hub = Hub(private=private, repositories=profile.repositories)
        return _fetch_pinned(resolve(ref, hub), hub, profile, on_progress)
    except SourceUnavailable as exc:
        commits = store.commits(ref.repo_id, profile)
        others = [commit for commit in commits if commit != ref.revision]
        if not others and not isinstance(exc, HubUnreachable):
            raise
        stored = f"Stored commits: {', '.join(others[:3]) or 'none'}."
        which = f"{ref.repo_id}@{ref.revision}: " if is_offline() else ""
        raise SourceUnavailable(f"{which}{exc} {stored}") from exc


def _fetch_pinned(ref: HubRef, hub: Hub, profile: Profile, on_progress: OnProgress) -> Stored:
    repo, commit = ref.repo_id, ref.commit
    listing = hub.listing(repo, commit)
    objects: dict[str, bytes] = {}
    if has_git():
        objects = fetch_objects(hub.page(repo), commit, hub.token())
        _compare(listing, _walk(commit, objects), ref)
    chosen, left_out = _choose(listing, ref, profile)
    with store.resume(repo, commit, profile) if profile.resumes else store.stage() as staged:
        if profile.resumes and (done := store.load(repo, commit, profile)) is not None:
            return done  # another process was faster
        files = download(chosen, ref, hub, staged, on_progress)
        manifest = Manifest(
            repo=repo,
            commit=commit,
            endpoint=hub.endpoint,
            proof="git" if objects else "listing",
            files=files,
            left_out=left_out,
            objects=_encoded(objects),
        )
        stored = store.save(manifest, staged, profile)
    _note_branches(repo, commit, hub, profile)
    return stored


def _walk(commit: str, objects: dict[str, bytes]) -> dict[str, TreeEntry]:
    try:
        return walk(commit, objects)
    except BrokenProof as exc:
        raise SourceCorrupt(f"The objects from git are not those of {commit}: {exc}.") from exc


def _compare(listing: list[HubFile], entries: dict[str, TreeEntry], ref: HubRef) -> None:
    """Compare the Hub's listing with the commit's own trees."""
    listed = {file.path: file.blob_id for file in listing}
    proven = {path: entry.blob_id for path, entry in entries.items()}
    if listed != proven:
        different = sorted(
            path for path in listed.keys() | proven.keys() if listed.get(path) != proven.get(path)
        )
        raise SourceCorrupt(
            f"The Hub's listing of {ref} does not match the commit: {different[0]} differs. "
            "Nothing was executed."
        )
    _check_modes(entries, ref)


def _check_modes(entries: dict[str, TreeEntry], ref: HubRef) -> None:
    for path, entry in entries.items():
        if entry.mode not in FILE_MODES:
            found = "a symbolic link" if entry.mode == LINK_MODE else "not a regular file"
            raise SourceCorrupt(f"{path} of {ref} is {found}; only files are fetched.")


def _choose(
    listing: list[HubFile], ref: HubRef, profile: Profile
) -> tuple[list[HubFile], tuple[str, ...]]:
    """Return the files to fetch, and the paths of those that are left out."""
    check_paths([file.path for file in listing], ref)
    profile.check(str(ref), {file.path: file.size for file in listing})
    chosen = [file for file in listing if profile.wants(file.path)]
    left_out = tuple(sorted(file.path for file in listing if not profile.wants(file.path)))
    return chosen, left_out


_MAX_PATH_BYTES = 1000
"""Of a file's path: it must fit below the store's directory, and Linux takes 4,096."""
_MAX_NAME_BYTES = 255
"""Of each name in it, as file systems of Linux have it."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters: control, format, unassigned, private, surrogate, line, paragraph."""


def check_paths(paths: list[str], ref: HubRef) -> None:
    """Check that files can be written below one directory, and that their names are what they seem.

    Raises:
        SourceCorrupt: A path leaves the directory, misleads readers, or is there twice.
    """
    directories = {path[:at] for path in paths for at, c in enumerate(path) if c == "/"}
    seen: set[str] = set()
    for path in paths:
        problem = _find_problem(path)
        if path in seen or path in directories:
            problem = "there is another file or directory of that name"
        if problem:
            raise SourceCorrupt(
                f"{ref} has a file that is not fetched: {path[:_MAX_PATH_BYTES]!a}: {problem}. "
                "Its author can rename it. Nothing was executed."
            )
        seen.add(path)


def _find_problem(path: str) -> str:
    """Return what keeps a text from being a plain relative path, or ""."""
    names = path.split("/")
    if any(name in ("", ".", "..") or name.lower() == ".git" for name in names):
        return "not a path inside a repository"
    # Backslashes separate names elsewhere; the other characters cannot be seen, or hide others.
    if "\\" in path or any(unicodedata.category(c) in _HIDDEN for c in path):
        return "a character that does not belong in a name"
    if len(path.encode()) > _MAX_PATH_BYTES or any(
        len(n.encode()) > _MAX_NAME_BYTES for n in names
    ):
        return "too long"
    return ""
