"""Find the files that a benchmark needs and its package does not have, and take their digest."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.declarations import Asset, Benchmark
from envhub.errors import SourceUnavailable, UsageError
from envhub.options import Argument
from envhub.types import LocalAsset


def find_assets(benchmark: Benchmark, env_args: Mapping[str, Argument]) -> tuple[LocalAsset, ...]:
    """Return the directories of a benchmark's assets: from the arguments, or from variables.

    Raises:
        SourceUnavailable: Nobody says where they are; the error says how to.
        UsageError: The directory does not exist, or cannot be read.
    """
    return tuple(_find(benchmark, asset, env_args.get(asset.name)) for asset in benchmark.assets)


def hash_tree(directory: Path) -> str:
    """Return a digest of the names and contents of all files below a directory.

    Symbolic links are followed: a copy of the same files has the same digest.
    """
    digest = hashlib.sha256()
    for path in sorted(_files(directory)):
        content = hashlib.sha256((directory / path).read_bytes()).hexdigest()
        digest.update(f"{content}  {path}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _find(benchmark: Benchmark, asset: Asset, given: Argument) -> LocalAsset:
    text = given or os.environ.get(asset.variable)
    where = f"--env-arg {asset.name}=DIR or {asset.variable}"
    if not text:
        raise SourceUnavailable(
            f"{benchmark.name} needs the files of the Hub dataset {asset.repo}, which are not part "
            f"of its package. Download them, and name their directory with {where}."
        )
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


def _files(directory: Path) -> Iterator[str]:
    """Yield the paths of all files below a directory, apart from hidden ones.

    The Hub's client keeps notes about its downloads in `.cache`, which differ from copy to copy.
    """
    for parent, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(parent).relative_to(directory)
        yield from ((inside / name).as_posix() for name in names if not name.startswith("."))
