"""The files that a node needs, as bytes: collected by the driver, checked by the node."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from envhub.errors import NoNodePlays, SourceCorrupt
from envhub.files import write_whole
from envhub.policies.kinds import OfFile, PolicyKind
from envhub.run_info import BenchmarkInfo, PolicyInfo
from envhub.types import FileSource, Source
from envhub_cluster.messages import MAX_FILES, File, Parcel


def pack_benchmark(source: Source, info: BenchmarkInfo) -> Parcel | None:
    """Return the files of a benchmark; None if it is an installed plugin.

    Raises:
        NoNodePlays: They are too large to be sent.
    """
    if not isinstance(source, FileSource):
        return None
    place = Path(source.directory)
    files = _read(place, list(info.files), f"The directory {place}")
    return Parcel(files=files, file=source.file, package=source.package, name=source.name)


def pack_policy(policy: PolicyKind, info: PolicyInfo) -> Parcel | None:
    """Return a policy's file and those that it imports; None if it is not in a file of the user."""
    if not isinstance(policy, OfFile):
        return None
    path = Path(policy.path).resolve()
    names = [path.name, *info.imports]
    return Parcel(files=_read(path.parent, names, f"The policy {policy.ref}"), file=path.name)


def unpack(parcel: Parcel, hashes: Mapping[str, str], directory: Path) -> None:
    """Write files below an empty directory, after every byte was checked.

    Args:
        parcel: The files.
        hashes: The sha256 of each file, by its path.
        directory: Where to.

    Raises:
        SourceCorrupt: A file is missing, not expected, or not the one of the hash.
    """
    found = {file.path: file.content for file in parcel.files}
    for name in sorted({*found, *hashes, parcel.file}):
        if name not in found or name not in hashes:
            raise SourceCorrupt(f"The driver's {name} is not among the files of the run.")
        digest, due = f"sha256:{hashlib.sha256(found[name]).hexdigest()}", hashes[name]
        if digest != due:
            raise SourceCorrupt(f"The driver's {name} has {digest}, and the run has {due}.")
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            raise SourceCorrupt(f"The driver's {name!r} leads out of its directory.")
    for name, content in found.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, durable=False)


def _read(directory: Path, names: list[str], subject: str) -> list[File]:
    total = sum((directory / name).stat().st_size for name in names)
    if total > MAX_FILES:
        raise NoNodePlays(
            f"{subject} has {total / 2**20:,.0f} MB, and a cluster's nodes are sent at most "
            f"{MAX_FILES // 2**20}. Move what is no code to a directory of its own, or install the "
            "code as a package on all nodes."
        )
    return [File(path=name, content=(directory / name).read_bytes()) for name in names]
