"""The sets of assets that were fetched from the Hub, each kept at one commit until it is updated.

    assets/<owner>--<repo>.json    in the user's directory for states

The files themselves are in the store, which is a cache: what was removed there is fetched again, at
the same commit.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from envhub.errors import SourceCorrupt, SourceUnavailable
from envhub.files import advise_on_space, discard_tree, state_home, write_whole
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.download import OnProgress
from envhub.sources.fetch import obtain_files, resolve
from envhub.sources.fingerprint import digest_of
from envhub.sources.hub import Hub
from envhub.sources.profiles import ASSETS


class Kept(msgspec.Struct, frozen=True):
    """Which commit of a set of assets is used."""

    repo: str
    commit: str
    digest: str
    """Of the names and contents of its files."""
    endpoint: str
    """The Hub that they came from."""
    fetched: str
    """When the commit was chosen."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """A kept set, and its files, every byte checked."""

    kept: Kept
    directory: Path
    files: int
    size: int


def all_kept() -> list[Kept]:
    """Return the kept sets, by name."""
    paths = sorted((state_home() / "assets").glob("*--*.json"))
    return [kept for path in paths if (kept := _read(path)) is not None]


def recall(repo: str) -> Kept | None:
    """Return which commit of a dataset is kept; None if none is, or none that can be read."""
    return _read(_path(repo))


def load(kept: Kept) -> KeptFiles | None:
    """Return the stored files of a kept set, every byte checked; None if they are not stored.

    Raises:
        SourceCorrupt: A file was changed.
    """
    stored = store.load(kept.repo, kept.commit, ASSETS)
    return None if stored is None else _describe(kept, stored)


def obtain(
    repo: str, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> KeptFiles:
    """Return the files of a dataset at the commit that is kept; choose and fetch it if necessary.

    The Hub is asked which commit is the newest the first time only.

    Raises:
        SourceUnavailable: The files are not stored and cannot be fetched.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    kept = recall(repo)
    commit = kept.commit if kept else _newest(repo, private=private)
    return _obtain(repo, commit, kept, private=private, on_progress=on_progress)


def update(
    repo: str, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> KeptFiles:
    """Keep the newest commit of a dataset from now on; fetch it if it is not stored.

    Raises:
        SourceUnavailable: The Hub cannot be asked, or the files cannot be fetched.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    commit = _newest(repo, private=private)
    kept = recall(repo)
    same = kept if kept and kept.commit == commit else None
    return _obtain(repo, commit, same, private=private, on_progress=on_progress)


def remove(repo: str) -> bool:
    """Remove all files of a dataset, and which commit is kept; returns whether there were any."""
    places = [store.stored_path(repo, "x", ASSETS).parent, *store.partials(repo, ASSETS)]
    present = [place for place in places if place.is_dir()]
    known = recall(repo) is not None
    _path(repo).unlink(missing_ok=True)
    for place in present:
        discard_tree(place)
    return known or bool(present)


def _newest(repo: str, *, private: bool) -> str:
    owner, _, name = repo.partition("/")
    hub = Hub(private=private, repositories=ASSETS.repositories)
    return resolve(HubRef(owner, name, None, ""), hub).commit


def _obtain(
    repo: str, commit: str, kept: Kept | None, *, private: bool, on_progress: OnProgress
) -> KeptFiles:
    owner, _, name = repo.partition("/")
    ref = HubRef(owner, name, commit, "")
    stored = obtain_files(ref, ASSETS, private=private, on_progress=on_progress)
    if kept is None:
        kept = Kept(
            repo,
            commit,
            _digest(stored),
            stored.manifest.endpoint,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        _write(kept)
    return _describe(kept, stored)


def _describe(kept: Kept, stored: store.Stored) -> KeptFiles:
    if (digest := _digest(stored)) != kept.digest:
        raise SourceCorrupt(
            f"The files of {kept.repo}@{kept.commit} are not those of before: their digest is "
            f"{digest} instead of {kept.digest}. If that is meant: envhub assets update {kept.repo}"
        )
    files = stored.manifest.files
    return KeptFiles(kept, stored.directory, len(files), sum(f.size for f in files.values()))


def _digest(stored: store.Stored) -> str:
    return digest_of({path: file.sha256 for path, file in stored.manifest.files.items()})


def _read(path: Path) -> Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return None


def _write(kept: Kept) -> None:
    path = _path(kept.repo)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(kept))
    except OSError as exc:
        raise SourceUnavailable(
            f"Which commit of {kept.repo} is used cannot be written to {path}: "
            f"{exc.strerror or exc}. {advise_on_space(exc, 'ENVHUB_STATE_DIR')}"
        ) from exc


def _path(repo: str) -> Path:
    return state_home() / "assets" / f"{repo.replace('/', '--')}.json"
