"""What the user knows of fetched commits, kept apart from the store.

    fetched/<owner>--<repo>/<commit>.json           in the user's directory for states
    fetched/<folder>/<owner>--<repo>/<commit>.json  for what is not a benchmark

The store is a cache: directories of caches are shared, copied and restored, and whoever changes a
file there can change the manifest beside it too. The manifest's digest is here.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from envhub.files import state_home, write_whole
from envhub.sources.profiles import BENCHMARK, Profile


class Known(msgspec.Struct, frozen=True):
    """What is known of a fetched commit."""

    manifest: str
    """The sha256 of its manifest's bytes."""
    branch_at: str = ""
    """The Hub where a branch or tag of the repository leads to it, or has led to it once."""


def digest(manifest: bytes) -> str:
    """Return the digest of a manifest."""
    return hashlib.sha256(manifest).hexdigest()


def recall(repo: str, commit: str, profile: Profile = BENCHMARK) -> Known | None:
    """Return what is known of a commit; None if nothing is, or nothing that can be read."""
    try:
        return msgspec.json.decode(_path(repo, commit, profile).read_bytes(), type=Known)
    except (OSError, msgspec.DecodeError):
        return None


def remember(repo: str, commit: str, known: Known, profile: Profile = BENCHMARK) -> None:
    """Note what is known of a commit.

    Where that cannot be written, the commit stays unknown: it is fetched or checked again.
    """
    path = _path(repo, commit, profile)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(known), mode=0o600)


def _path(repo: str, commit: str, profile: Profile) -> Path:
    base = state_home() / "fetched"
    if profile != BENCHMARK:
        base /= profile.folder
    return base / repo.replace("/", "--") / f"{commit}.json"
