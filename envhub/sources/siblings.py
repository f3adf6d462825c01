"""The files below a Python file's directory that it imports, found without executing any.

What code computes, as for `import_module`, is not found.
"""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from envhub.sources.fingerprint import hash_file

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
    for node in ast.walk(_parse(path)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _files_of(top, alias.name.split("."), top)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = path.parents[level - 1] if 0 < level <= len(path.parents) else top
                if base != top and top not in base.parents:
                    continue
                parts = module.split(".") if module else []
                for alias in names:  # a name may be a module of the package
                    yield from _files_of(base, [*parts, alias.name], top)


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


def _parse(path: Path) -> ast.AST:
    with path.open("rb") as file:
        source = file.read(_MAX_SOURCE + 1)
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(source if len(source) <= _MAX_SOURCE else b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
