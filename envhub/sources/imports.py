"""Find the files that an env file leads to, without executing any.

Imports are read from the source, and so are texts that name a module or a file: what a benchmark
declares as `"package.module:make"`, what `import_module` or `open` is given. What code computes is
not found, so the answer says only which files to read first; it is no promise about the others.
"""

import ast
import posixpath
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator

_MAX_SOURCE = 2**20
"""Bytes of a source that is parsed; of all together, eight times as many."""
_MAX_NAME = 1000
_MODULE_TEXT = re.compile(r"\.{0,5}[^\W\d][\w.]{0,300}(?::[\w.]{1,300})?")
_parsing = threading.Lock()
"""Held while source is parsed: in CPython 3.11 two threads that parse at once can end in a
SystemError, and they share the filters of warnings."""
_CODE = (".py", ".pyc", ".pyo", ".so", ".pyd", ".pth")


def reachable(entry: str, paths: Collection[str], read: Callable[[str], bytes]) -> tuple[str, ...]:
    """Return a file and those that it imports or names, directly or not, nearest first.

    Args:
        entry: The path of the env file.
        paths: All files of the repository.
        read: Returns the content of one.
    """
    index = _Index(entry, paths)
    order = dict.fromkeys([entry, *index.packages_above()])
    waiting, budget = deque(order), 8 * _MAX_SOURCE
    while waiting:
        path = waiting.popleft()
        if not path.endswith(".py"):
            continue
        source = read(path)
        if len(source) > min(_MAX_SOURCE, budget):
            continue
        budget -= len(source)
        for found in index.named_in(path, source):
            if found not in order:
                order[found] = None
                waiting.append(found)
    return tuple(order)


def parse_source(source: bytes) -> ast.AST:
    """Parse foreign source; what is not Python, or nested without end, has no nodes."""
    try:
        with _parsing, warnings.catch_warnings(action="ignore"):  # of foreign escapes
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def names_imported_by(node: ast.AST) -> Iterator[str]:
    """Yield what a statement may import: `a.b` also for `from a import b`, `..b` if relative."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            start = "." * level + (f"{module}." if module else "")
            yield from (f"{start}{alias.name}" for alias in names)


def is_code(path: str) -> bool:
    """Whether Python can execute a file of this name by importing it."""
    return path.endswith(_CODE)


class _Index:
    """The files of a repository, by the names that they are imported by."""

    def __init__(self, entry: str, paths: Collection[str]) -> None:
        self._entry = entry
        self._paths = frozenset(paths)
        self._modules: dict[str, list[str]] = {}
        for path in sorted(paths):
            if is_code(path):
                folder, name = posixpath.split(path)
                stem = name.partition(".")[0]  # of an extension too: x.cpython-311-x86_64.so
                module = folder if stem == "__init__" else posixpath.join(folder, stem)
                self._modules.setdefault(module, []).append(path)

    def packages_above(self) -> list[str]:
        """The files of the packages that the env file is in, which are executed before it."""
        folder, found = posixpath.dirname(self._entry), [""]
        while folder:
            found.append(folder)
            folder = posixpath.dirname(folder)
        inits = (path for name in sorted(found) for path in self._modules.get(name, ()))
        return [path for path in inits if posixpath.basename(path).startswith("__init__.")]

    def named_in(self, path: str, source: bytes) -> Iterator[str]:
        for node in ast.walk(parse_source(source)):
            for name in names_imported_by(node):
                yield from self._find(path, name)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._named_by(path, node.value)

    def _named_by(self, path: str, text: str) -> Iterator[str]:
        if _MODULE_TEXT.fullmatch(text):
            yield from self._find(path, text.partition(":")[0])
        if len(text) > _MAX_NAME:
            return
        for folder in sorted({"", posixpath.dirname(path), posixpath.dirname(self._entry)}):
            file = posixpath.normpath(posixpath.join(folder, text))
            if file in self._paths:
                yield file

    def _find(self, path: str, dotted: str) -> Iterator[str]:
        """The files of a module and of the packages that it is in."""
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        here = posixpath.dirname(path)
        bases = {"", here, posixpath.dirname(self._entry)}
        if level:
            parts = here.split("/") if here else []
            if level - 1 > len(parts):
                return
            bases = {"/".join(parts[: len(parts) - (level - 1)])}
        for base in sorted(bases):
            yield from self._below(base, name.split("."))

    def _below(self, base: str, parts: list[str]) -> Iterator[str]:
        for part in parts:
            if part == "*":
                for module, files in self._modules.items():
                    if posixpath.dirname(module) == base:
                        yield from files
                return
            base = posixpath.join(base, part)
            yield from self._modules.get(base, ())
