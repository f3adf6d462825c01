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
from envhub.files import advise_on_space, state_home, write_whole
from envhub.refs import HubRef
from envhub.sources import store
from envhub.sources.download import OnProgress
from envhub.sources.fetch import obtain_files, resolve
from envhub.sources.fingerprint import digest_of
from envhub.sources.hub import Hub
from envhub.sources.profiles import ASSETS


class AssetPin(msgspec.Struct, frozen=True):
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
class PinnedAssets:
    """A kept set, and its files, every byte checked."""

    pin: AssetPin
    directory: Path
    files: int
    size: int


def all_pins() -> list[AssetPin]:
    """Return the kept sets, by name."""
    paths = sorted((state_home() / "assets").glob("*--*.json"))
    return [pin for path in paths if (pin := _read(path)) is not None]


def recall(repo: str) -> AssetPin | None:
    """Return which commit of a dataset is kept; None if none is, or none that can be read."""
    return _read(_path(repo))


def load(pin: AssetPin) -> PinnedAssets | None:
    """Return the stored files of a kept set, every byte checked; None if they are not stored.

    Raises:
        SourceCorrupt: A file was changed.
    """
    stored = store.load(pin.repo, pin.commit, ASSETS)
    return None if stored is None else _describe(pin, stored)


def obtain(
    repo: str, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> PinnedAssets:
    """Return the files of a dataset at the commit that is kept; choose and fetch it if necessary.

    The Hub is asked which commit is the newest the first time only.

    Raises:
        SourceUnavailable: The files are not stored and cannot be fetched.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    pin = recall(repo)
    commit = pin.commit if pin else _newest(repo, private=private)
    return _obtain(repo, commit, pin, private=private, on_progress=on_progress)


def update(
    repo: str, *, private: bool = False, on_progress: OnProgress = lambda *_: None
) -> PinnedAssets:
    """Keep the newest commit of a dataset from now on; fetch it if it is not stored.

    Raises:
        SourceUnavailable: The Hub cannot be asked, or the files cannot be fetched.
        SourceCorrupt: The fetched files are not those of the commit.
    """
    commit = _newest(repo, private=private)
    pin = recall(repo)
    same = pin if pin and pin.commit == commit else None
    return _obtain(repo, commit, same, private=private, on_progress=on_progress)


def forget(repo: str) -> bool:
    """Keep no commit of a dataset any more; returns whether one was kept."""
    known = recall(repo) is not None
    _path(repo).unlink(missing_ok=True)
    return known


def _newest(repo: str, *, private: bool) -> str:
    owner, _, name = repo.partition("/")
    hub = Hub(private=private, repositories=ASSETS.repositories)
    return resolve(HubRef(owner, name, None, ""), hub).commit


def _obtain(
    repo: str, commit: str, pin: AssetPin | None, *, private: bool, on_progress: OnProgress
) -> PinnedAssets:
    owner, _, name = repo.partition("/")
    ref = HubRef(owner, name, commit, "")
    stored = obtain_files(ref, ASSETS, private=private, on_progress=on_progress)
    if pin is None:
        pin = AssetPin(
            repo,
            commit,
            _digest(stored),
            stored.manifest.endpoint,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        _write(pin)
    return _describe(pin, stored)


def _describe(pin: AssetPin, stored: store.Stored) -> PinnedAssets:
    if (digest := _digest(stored)) != pin.digest:
        raise SourceCorrupt(
            f"The files of {pin.repo}@{pin.commit} are not those of before: their digest is "
            f"{digest} instead of {pin.digest}. If that is meant: envhub assets update {pin.repo}"
        )
    files = stored.manifest.files
    return PinnedAssets(pin, stored.directory, len(files), sum(f.size for f in files.values()))


def _digest(stored: store.Stored) -> str:
    return digest_of({path: file.sha256 for path, file in stored.manifest.files.items()})


def _read(path: Path) -> AssetPin | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=AssetPin)
    except (OSError, msgspec.DecodeError):
        return None


def _write(pin: AssetPin) -> None:
    path = _path(pin.repo)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(pin))
    except OSError as exc:
        raise SourceUnavailable(
            f"Which commit of {pin.repo} is used cannot be written to {path}: "
            f"{exc.strerror or exc}. {advise_on_space(exc, 'ENVHUB_STATE_DIR')}"
        ) from exc


def _path(repo: str) -> Path:
    return state_home() / "assets" / f"{repo.replace('/', '--')}.json"
