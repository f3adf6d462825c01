"""Execute foreign code, and resolve names that a benchmark gave: the only place that does.

Code of a confined source runs in workers only. `_check_place` is the one rule that keeps it there:
a process is a worker if its `main` said so, and any other process refuses.
"""

import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from envhub.errors import ContractError
from envhub.types import FileSource

if TYPE_CHECKING:
    from _typeshed.importlib import PathEntryFinderProtocol

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
    """
    _check_place(source.file, confined=source.confinement is not None)
    return load_file(Path(source.directory), source.file, source.package)


def load_file(directory: Path, file: str, package: str) -> ModuleType:
    """Import a file as a module of a package, which is its directory.

    Relative imports of siblings work through the package, absolute ones through `sys.path`; both
    search the file's directory first, as if the file were run as a script. A module that an
    `__init__.py` has already imported is not executed again.

    Args:
        directory: The package's directory.
        file: The file's path inside the directory.
        package: The name to import the directory as.
    """
    path = directory / file
    sys.path.insert(0, str(path.parent))
    parent = _load_package(directory, package)
    parts = Path(file).with_suffix("").parts
    for depth, part in enumerate(parts[:-1], start=1):
        parent = _load_package(directory.joinpath(*parts[:depth]), f"{parent.__name__}.{part}")
    if parts[-1] == "__init__":
        return parent
    # A dot in the file's name would mean a package that does not exist.
    name = f"{parent.__name__}.{parts[-1].replace('.', '_')}"
    return sys.modules.get(name) or _execute(name, path)


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


def _load_package(directory: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    init = directory / "__init__.py"
    if init.is_file():
        return _execute(name, init, [str(directory)])
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(directory)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def _execute(name: str, path: Path, locations: list[str] | None = None) -> ModuleType:
    if name in sys.modules:  # a benchmark's policy may be in the benchmark's own file
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
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
