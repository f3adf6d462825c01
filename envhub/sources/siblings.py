"""The files below a Python file's directory that it imports, found without executing any.

What code computes, as for `import_module`, is not found.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from envhub.sources.fingerprint import hash_file
from envhub.sources.imports import names_imported_by, parse_source

_MAX_FILES = 1000
_MAX_SOURCE = 2**20
"""Bytes of a source that is parsed."""


def hash_siblings(file: Path) -> dict[str, str]:
    """Return the hashes of the files that a file imports, directly or not, by their paths.

    Args:
        file: Its directory is searched first for what it imports, as if it were run as a script.
    """
    top = file.parent
    order = dict.fromkeys([file, *_initializers(file, top)])
    waiting = list(order)
    while waiting and len(order) <= _MAX_FILES:
        path = waiting.pop()
        for found in _imported(path, top):
            if found not in order:
                order[found] = None
                waiting.append(found)
    return {str(path.relative_to(top)): hash_file(path) for path in sorted(order) if path != file}


def _imported(path: Path, top: Path) -> Iterator[Path]:
    with path.open("rb") as file:
        source = file.read(_MAX_SOURCE + 1)
    if len(source) > _MAX_SOURCE:
        return
    for node in ast.walk(parse_source(source)):
        for dotted in names_imported_by(node):
            name = dotted.lstrip(".")
            level = len(dotted) - len(name)
            base = path.parents[level - 1] if 0 < level <= len(path.parents) else top
            if base == top or top in base.parents:
                yield from _files_of(base, name.split("."), top)


def _files_of(base: Path, parts: list[str], top: Path) -> Iterator[Path]:
    """Yield the files that importing a module executes: it, and the packages that it is in."""
    for depth in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:depth])
        module = place.with_name(f"{place.name}.py")
        if module.is_file():
            yield module
        elif (place / "__init__.py").is_file():
            yield place / "__init__.py"
    yield from _initializers(base / "any", top)


def _initializers(path: Path, top: Path) -> Iterator[Path]:
    for folder in path.parents:
        if (folder == top or top in folder.parents) and (folder / "__init__.py").is_file():
            yield folder / "__init__.py"
