"""Execute foreign code, and resolve names that a benchmark gave: the only place that does.

Code of a confined source runs in workers only. `_check_place` is the one rule that keeps it there:
a process is a worker if its `main` said so, and any other process refuses.

The host has checked every byte of a commit before it starts a worker, but the worker reads the
files again, later. So a module of a commit is compiled from bytes that have the hash of the file in
the commit (`_Commit`), and from nothing else: no `__pycache__`, no file that the commit lacks.
"""

import hashlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from envhub.errors import ContractError, SourceCorrupt
from envhub.types import FileSource

if TYPE_CHECKING:
    from _typeshed.importlib import PathEntryFinderProtocol

Load = Callable[[str, str], SourceFileLoader]
"""Makes the loader of a module from its name and its path."""

_in_worker = False


def enter_worker() -> None:
    """Say that this process is a worker, where foreign code may be executed.

    From the checkout of an editable installation it can import EnvHub, and nothing beside it.
    """
    global _in_worker
    _in_worker = True
    root = Path(__file__).parent.parent
    finder = pkgutil.get_importer(str(root))
    if finder is not None and (root / "pyproject.toml").exists():
        sys.path_importer_cache[str(root)] = _OnlyEnvHub(finder)


@dataclass(frozen=True, slots=True)
class _OnlyEnvHub:
    """Finds EnvHub's package in a directory that also has `runs` and `tests`.

    Without it a benchmark would work here that lacks a module of such a name.
    """

    finder: "PathEntryFinderProtocol"

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return self.finder.find_spec(name, target) if name == "envhub" else None


def load_source(source: FileSource) -> ModuleType:
    """Import a source's file.

    Raises:
        ContractError: Its code is confined, and this process is not a worker.
        SourceCorrupt: A file that it imports is not that of the commit.
    """
    _check_place(source.file, confined=source.confinement is not None)
    origin = source.origin
    if origin is None or not origin.files:  # the user's own, perhaps to be tried in a sandbox
        return load_file(Path(source.directory), source.file, source.package)
    name = f"{origin.repo}@{origin.commit}"
    commit = _Commit(name, os.path.realpath(source.directory), origin.files)
    sys.path_hooks.insert(0, commit.find_in)
    for path in [path for path in sys.path_importer_cache if commit.holds(path)]:
        del sys.path_importer_cache[path]
    module = load_file(Path(source.directory), source.file, source.package, commit.load)
    if commit.problems:  # the code may have caught the exception and gone another way
        raise SourceCorrupt(commit.problems[0])
    return module


def load_file(directory: Path, file: str, package: str, loader: Load | None = None) -> ModuleType:
    """Import a file as a module of a package, which is its directory.

    Relative imports of siblings work through the package, absolute ones through `sys.path`; both
    search the file's directory first, as if the file were run as a script. A module that an
    `__init__.py` has already imported is not executed again.

    Args:
        directory: The package's directory.
        file: The file's path inside the directory.
        package: The name to import the directory as.
        loader: Makes the loader of a file; None: Python's own.
    """
    path = directory / file
    sys.path.insert(0, str(path.parent))
    parent = _load_package(directory, package, loader)
    parts = Path(file).with_suffix("").parts
    for depth, part in enumerate(parts[:-1], start=1):
        folder = directory.joinpath(*parts[:depth])
        parent = _load_package(folder, f"{parent.__name__}.{part}", loader)
    if parts[-1] == "__init__":
        return parent
    # A dot in the file's name would mean a package that does not exist.
    name = f"{parent.__name__}.{parts[-1].replace('.', '_')}"
    return sys.modules.get(name) or _execute(name, path, loader)


def load_object(target: str, declaring: ModuleType | None, *, confined: bool) -> object:
    """Return the object at `package.module:name`, or at `:name` in the declaring module.

    Args:
        target: The name.
        declaring: The module that gave it.
        confined: Whether a confined source gave it: then whatever it names is foreign code.

    Raises:
        ContractError: The module has no such object, or it may not be loaded here.
    """
    _check_place(target, confined=confined)
    module_name, _, name = target.partition(":")
    module = importlib.import_module(module_name) if module_name else declaring
    if module is None or not hasattr(module, name):
        where = module_name or (declaring.__name__ if declaring else "the file")
        raise ContractError(f"The benchmark names {target!r}, but {where} has no {name!r}.")
    return getattr(module, name)


def _check_place(target: str, *, confined: bool) -> None:
    if confined and not _in_worker:
        raise ContractError(
            f"{target} belongs to a benchmark in a sandbox and is not loaded outside of it; a "
            "policy of the benchmark must set its placement to 'worker'."
        )


def _load_package(directory: Path, name: str, loader: Load | None) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    init = directory / "__init__.py"
    if init.is_file():
        return _execute(name, init, loader, [str(directory)])
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(directory)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _execute(
    name: str, path: Path, loader: Load | None, locations: list[str] | None = None
) -> ModuleType:
    if name in sys.modules:  # a benchmark's policy may be in the benchmark's own file
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name,
        path,
        loader=None if loader is None else loader(name, str(path)),
        submodule_search_locations=locations,
    )
    if spec is None or spec.loader is None:
        raise ContractError(f"{path.name} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # not to be found half executed
        raise
    return module


@dataclass(frozen=True, slots=True)
class _Commit:
    """The files of a commit, which were checked once and are compared again when they are read."""

    name: str
    directory: str
    """Without symbolic links."""
    files: Mapping[str, str]
    """The hash of each file, by its path."""
    problems: list[str] = field(default_factory=list)

    def holds(self, path: str) -> bool:
        """Whether a path is in the directory, or is the directory."""
        return f"{os.path.realpath(path)}/".startswith(f"{self.directory}/")

    def find_in(self, path: str) -> FileFinder:
        """Return the finder of modules in a folder, as a hook for paths must.

        Raises:
            ImportError: The folder is not in the directory.
        """
        if not self.holds(path) or not Path(path).is_dir():
            raise ImportError(f"{path} is not a directory of {self.name}", path=path)
        extension = partial(_CheckedExtension, commit=self)
        # Any callable will do, though the annotations of FileFinder want classes.
        loaders: Any = ((extension, EXTENSION_SUFFIXES), (self.load, SOURCE_SUFFIXES))
        return FileFinder(path, *loaders)

    def load(self, name: str, path: str) -> "_CheckedSource":
        """Return the loader of a module."""
        return _CheckedSource(name, path, commit=self)

    def check(self, path: str, content: bytes) -> None:
        """Compare bytes that were read from a path with the commit's file.

        Raises:
            SourceCorrupt: They differ, or the commit has no such file.
        """
        file = os.path.relpath(os.path.realpath(path), self.directory)
        expected = self.files.get(file)
        if expected == f"sha256:{hashlib.sha256(content).hexdigest()}":
            return
        what = "is not part of" if expected is None else "has changed since it was checked in"
        self.problems.append(
            f"{file} {what} the stored copy of {self.name}, and was not executed. Run the command "
            "again: the copy is then fetched anew."
        )
        raise SourceCorrupt(self.problems[-1])


class _CheckedSource(SourceFileLoader):
    """Compiles a module of a commit from bytes that have its hash."""

    def __init__(self, name: str, path: str, *, commit: _Commit) -> None:
        super().__init__(name, path)
        self._commit = commit

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source, whatever a `__pycache__` has."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def get_data(self, path: str) -> bytes:
        """Read a file and compare it."""
        content = super().get_data(path)
        self._commit.check(path, content)
        return content


class _CheckedExtension(ExtensionFileLoader):
    """Loads a compiled module of a commit if it has its hash just before."""

    def __init__(self, name: str, path: str, *, commit: _Commit) -> None:
        super().__init__(name, path)
        self._commit = commit

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Compare the file, and load it."""
        self._commit.check(self.path, Path(self.path).read_bytes())
        return super().create_module(spec)
