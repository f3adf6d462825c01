"""Find the files that a benchmark needs and its package does not have, and take their digest.

They are where an argument says, else where a variable says, else in the store; if they are not
there either, they are fetched from their Hub dataset.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.declarations import Asset, Benchmark
from envhub.errors import SourceUnavailable, UsageError
from envhub.options import Argument, Say
from envhub.sources.fingerprint import digest_of
from envhub.types import LocalAsset

"""Receives messages about work that takes long."""


def find_assets(
    benchmark: Benchmark, env_args: Mapping[str, Argument], progress: Say = lambda _: None
) -> tuple[LocalAsset, ...]:
    """Return the directories of a benchmark's assets; fetch those that nobody names.

    Args:
        benchmark: Declares them.
        env_args: May name their directories.
        progress: Receives messages about downloads.

    Raises:
        SourceUnavailable: They are not stored and cannot be fetched; says where to put them.
        SourceCorrupt: They are stored but damaged, and cannot be fetched again.
        UsageError: The directory does not exist, or cannot be read.
    """
    return tuple(
        _find(benchmark, asset, env_args.get(asset.name), progress) for asset in benchmark.assets
    )


def hash_tree(directory: Path) -> str:
    """Return a digest of the names and contents of all files below a directory.

    Symbolic links are followed: a copy of the same files has the same digest.
    """
    hashes = {}
    for path in _files(directory):
        with (directory / path).open("rb") as file:
            hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return digest_of(hashes)


def _find(benchmark: Benchmark, asset: Asset, given: Argument, progress: Say) -> LocalAsset:
    text = given or os.environ.get(asset.variable)
    where = f"--env-arg {asset.name}=DIR or {asset.variable}"
    if not text:
        return _fetch(benchmark, asset, where, progress)
    directory = Path(str(text)).expanduser().absolute()
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is not a directory. Name a copy of the Hub dataset {asset.repo} with "
            f"{where}."
        )
    try:
        return LocalAsset(asset.name, str(directory), hash_tree(directory))
    except OSError as exc:
        raise UsageError(f"{directory} cannot be read: {exc.strerror or exc}.") from exc


def _fetch(benchmark: Benchmark, asset: Asset, where: str, progress: Say) -> LocalAsset:
    from envhub.sources.asset_pins import obtain  # imports the Hub's client, which takes its time

    try:
        found = obtain(asset.repo, on_progress=_Lines(asset.repo, progress))
    except SourceUnavailable as exc:
        raise SourceUnavailable(
            f"{benchmark.name} needs the files of the Hub dataset {asset.repo}, which are not part "
            f"of its package and not stored here. {exc} Where there is a network: `envhub assets "
            f"fetch {benchmark.name}`. Or name the directory of a copy with {where}."
        ) from exc
    source = f"{asset.repo}@{found.pin.commit}"
    return LocalAsset(asset.name, str(found.directory), found.pin.digest, source)


class _Lines:
    """Turns the progress of a download into a line for every tenth of it."""

    def __init__(self, repo: str, progress: Say) -> None:
        self._repo = repo
        self._progress = progress
        self._tenths = -1

    def __call__(self, done: int, total: int, size: int, total_size: int) -> None:
        tenths = 10 * size // total_size if total_size else 0
        if tenths > self._tenths:
            begun, self._tenths = self._tenths >= 0, tenths
            text = f"{size / 2**20:,.0f} of {total_size / 2**20:,.0f} MB downloaded"
            if not begun:
                text = f"Fetching the Hub dataset {self._repo}: {total:,} files"
            self._progress(f"  {self._repo}: {text}" if begun else f"{text} ...")


def _files(directory: Path) -> Iterator[str]:
    """Yield the paths of all files below a directory, apart from hidden ones.

    The Hub's client keeps notes about its downloads in `.cache`, which differ from copy to copy.
    """
    for parent, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(parent).relative_to(directory)
        yield from ((inside / name).as_posix() for name in names if not name.startswith("."))
