"""Hash the files of a source: for the run's record, and to notice changes."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path
from typing import Any

from envhub.discovery import FINDERS, Installed, find
from envhub.errors import UsageError
from envhub.options import Argument
from envhub.types import FileSource, Origin, PluginSource, Source

_MAX_FILES = 5000

_SKIPPED = frozenset({"__pycache__", "runs", "node_modules"})


def identify(source: Source) -> dict[str, Any]:
    """Return the part of `run.json` that says which code was run."""
    match source:
        case PluginSource(name=name):
            plugin = find(name)
            package = f"{plugin.distribution} {plugin.version}"
            return {"kind": "plugin", "package": package, "files": hash_installed(plugin)}
        case FileSource(origin=Origin() as origin):
            return {"kind": "hub", **asdict(origin)}
        case FileSource(directory=directory):
            return {"kind": "local", "files": hash_directory(Path(directory))}


def list_files(source: Source) -> list[str]:
    """Return the paths of the files that `identify` hashes."""
    match source:
        case PluginSource(name=name):
            return sorted(hash_installed(find(name)))
        case FileSource(origin=Origin() as origin):
            return sorted(origin.files)
        case FileSource(directory=directory):
            return [str(path.relative_to(directory)) for path in _hashed(Path(directory))]


def hash_directory(directory: Path) -> dict[str, str]:
    """Return the hash of every file below a directory, by its path.

    Hidden files, caches and run directories are left out. If there are more than 5,000 files, only
    the Python files are hashed.

    Raises:
        UsageError: A file cannot be read.
    """
    return {str(path.relative_to(directory)): hash_file(path) for path in _hashed(directory)}


def digest_of(hashes: Mapping[str, str]) -> str:
    """Return the digest of a set of files.

    Args:
        hashes: The sha256 of each file, by its path.
    """
    digest = hashlib.sha256()
    for path in sorted(hashes):
        digest.update(f"{hashes[path]}  {path}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def hash_file(path: Path) -> str:
    """Return `sha256:...` of a file's content.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}.") from exc


def _hashed(directory: Path) -> list[Path]:
    paths = _files(directory)
    if len(paths) > _MAX_FILES:
        paths = [path for path in paths if path.suffix == ".py"][:_MAX_FILES]
    return paths


def _files(directory: Path) -> list[Path]:
    paths: list[Path] = []
    for parent, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(parent) / name))
        for name in sorted(names):
            path = Path(parent) / name
            if not name.startswith(".") and path.is_file():
                paths.append(path)
        if len(paths) > 20 * _MAX_FILES:
            break
    return paths


def _is_skipped(folder: Path) -> bool:
    """Whether a folder is not part of the code: hidden, a cache, or the directory of a run."""
    if folder.name.startswith(".") or folder.name in _SKIPPED:
        return True
    return all((folder / name).exists() for name in ("run.json", "episodes.jsonl"))


def hash_installed(plugin: Installed) -> dict[str, str]:
    """Return the hashes of a package's Python files, as its own record lists them.

    The record of an editable installation lists none, or a module that finds them: then the files
    themselves are hashed.
    """
    files = metadata.distribution(plugin.distribution).files or []
    listed = {
        str(file): f"{file.hash.mode}:{file.hash.value}"
        for file in files
        if file.hash is not None and file.suffix == ".py" and not file.name.startswith(FINDERS)
    }
    return listed or _editable(plugin.module.partition(":")[0].partition(".")[0])


def _editable(package: str) -> dict[str, str]:
    spec = util.find_spec(package)  # of a top-level name, which imports nothing
    if spec is not None and spec.submodule_search_locations is None and spec.has_location:
        return {f"{package}.py": hash_file(Path(str(spec.origin)))}
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    return {
        f"{package}/{name}": digest
        for folder in folders
        for name, digest in hash_directory(Path(folder)).items()
        if name.endswith(".py")
    }


def hash_named_files(args: Mapping[str, Argument], directory: Path) -> dict[str, str]:
    """Return the hashes of the files that arguments name, by the argument or its part.

    Args:
        args: The arguments.
        directory: Where relative paths begin.
    """
    texts = {where: text for key, value in args.items() for where, text in _texts(value, key)}
    paths = {where: directory / text for where, text in texts.items()}
    return {where: hash_file(path) for where, path in paths.items() if _is_file(path)}


def _texts(value: Argument, where: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in an argument, each after its place, such as `weights[0]`."""
    match value:
        case str():
            yield where, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, f"{where}[{index}]")
        case dict():
            for key, item in value.items():
                yield from _texts(item, f"{where}.{key}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character in it
        return False
