"""Copy EnvHub's own package and plugins for runtimes, which do not have them.

A copy is in the cache under the hash of its content, read-only, with the metadata that declares its
entry points, and every byte of it is checked when it is used. A runtime sees these packages and no
others of the host.
"""

import compileall
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any

from envhub.directories import PACKAGES, ensure
from envhub.discovery import FINDERS
from envhub.errors import RuntimeUnavailable
from envhub.options import Say
from envhub.runtime.installed import OWN


def copy_packages(
    distributions: Iterable[str], *, message: Say = lambda _: None
) -> tuple[str, ...]:
    """Copy distributions into the cache; return the directories to put on `sys.path`.

    Args:
        distributions: Their names; EnvHub's own is always copied.
        message: Receives a message about a copy that was changed.
    """
    return tuple(str(_copy(name, message)) for name in dict.fromkeys((OWN, *distributions)))


def key_of_copy(name: str) -> str:
    """Return the key of the copy of a distribution as it is installed."""
    return _key(_files_of(metadata.distribution(name)))


def _copy(name: str, message: Say) -> Path:
    distribution = metadata.distribution(name)
    files = _files_of(distribution)

    def build(place: Path) -> dict[str, Any]:
        for path, content in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        compileall.compile_dir(place, quiet=2, stripdir=str(place), prependdir=name)
        return {"distribution": name, "version": distribution.version}

    return ensure(PACKAGES, _key(files), build, message=message)


def _files_of(distribution: metadata.Distribution) -> dict[str, bytes]:
    return {**_metadata(distribution), **_contents(distribution)}


def _key(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


def _metadata(distribution: metadata.Distribution) -> dict[str, bytes]:
    """Return the files that give the name, the version and the entry points."""
    about = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    points = distribution.read_text("entry_points.txt")
    name = distribution.metadata["Name"].replace("-", "_")
    folder = f"{name}-{distribution.version}.dist-info"
    files = {f"{folder}/METADATA": about.encode()}
    return files if points is None else {**files, f"{folder}/entry_points.txt": points.encode()}


def _contents(distribution: metadata.Distribution) -> dict[str, bytes]:
    """Return the files of a distribution's modules, by their path on `sys.path`."""
    contents: dict[str, bytes] = {}
    # Folders that no worker reads.
    unread = ("templates", "tests") if distribution.metadata["Name"] == OWN else ("tests",)
    for module in sorted(_modules(distribution)):
        spec = util.find_spec(module)  # imports nothing: it is a top-level name
        if spec is None:
            continue
        if spec.submodule_search_locations is None:
            files = [(Path(spec.origin), Path(spec.origin).name)] if spec.origin else []
        else:
            files = [
                (path, f"{module}/{path.relative_to(folder).as_posix()}")
                for folder in spec.submodule_search_locations
                for path in _files(Path(folder), unread)
            ]
        contents |= {name: path.read_bytes() for path, name in files}
    if not contents:
        name = distribution.metadata["Name"]
        raise RuntimeUnavailable(
            f"The modules of {name} were not found, so they cannot be copied into a runtime.",
            f"Reinstall {name}.",
        )
    return contents


def _modules(distribution: metadata.Distribution) -> set[str]:
    """Return a distribution's top-level names; an editable install lists no files of its own."""
    declared = {
        point.module.partition(".")[0]
        for point in distribution.entry_points
        if point.group == "envhub" or point.group.startswith("envhub.")
    }
    listed = {
        file.parts[0].removesuffix(".py")
        for file in distribution.files or ()
        if file.suffix == ".py" and not file.parts[0].startswith((".", *FINDERS))
    }
    own = {"envhub"} if distribution.metadata["Name"] == OWN else set()
    return {name for name in declared | listed | own if name.isidentifier()}


def _files(folder: Path, unread: tuple[str, ...]) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        skipped = ("__pycache__", *unread) if Path(parent) == folder else ("__pycache__",)
        folders[:] = sorted(n for n in folders if n not in skipped and not n.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if not name.endswith(".pyc"))
