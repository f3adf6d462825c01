"""Files of the store that are changed after the host checked them and before a worker reads them.

They write a marker into the worker's own scratch directory, which the env's description tells.
"""

import importlib.util
import py_compile
from pathlib import Path

import numpy as np
import pytest
from support.attacks import env_file

from envhub.errors import SourceCorrupt, WorkerRaised
from envhub.files import set_writable
from envhub.host.loading import describe
from envhub.options import Limits, SourceOptions
from envhub.sources.find import find_source
from envhub.types import FileSource, WorkerSpec

HELPER = "FOUND = 'as committed'\n"
SWAPPED = "FOUND = 'swapped'\n"
TOP = "from . import helper\n"


@pytest.fixture
def checked(publish, sandbox) -> FileSource:
    """A source that the host has found to be that of the commit."""
    text = env_file(top=TOP).replace('"attack", 5', "helper.FOUND, 5")
    ref = publish(text, **{"helper.py": HELPER})
    source = find_source(ref, SourceOptions(trust_remote_code=True, sandbox=sandbox))
    assert isinstance(source, FileSource)
    set_writable(Path(source.directory), writable=True)
    return source


def load(source: FileSource) -> str:
    """The description of its task, which says which helper was loaded."""
    spec = WorkerSpec(source, {}, Limits(), alone=True)
    [task] = describe(spec, "here").benchmark.tasks().values()
    return task.description


def test_what_was_checked_is_loaded(checked):
    assert load(checked) == "as committed"


@pytest.mark.parametrize("file", ["env.py", "helper.py", "__init__.py"])
def test_a_file_that_was_swapped_or_added_is_not_executed(checked, file):
    path = Path(checked.directory, file)
    path.write_text((path.read_text() if path.exists() else "") + SWAPPED)
    added = file == "__init__.py"
    what = "is not part of" if added else "has changed since it was checked in"
    message = f"{file} {what} the stored copy of me/attack@{checked.origin.commit}, and was not "
    with pytest.raises(SourceCorrupt, match=message):
        load(checked)


def test_a_compiled_module_is_not_executed(checked):
    """Python would take it instead of the source, which is as it should be."""
    source = Path(checked.directory, "helper.py")
    status = source.stat()
    source.write_text(SWAPPED.ljust(len(HELPER)))
    compiled = importlib.util.cache_from_source(str(source))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), compiled, doraise=True, invalidation_mode=mode)
    source.write_text(HELPER)
    assert status.st_size == source.stat().st_size
    assert load(checked) == "as committed"


def test_an_absolute_import_is_compared_too(publish, sandbox):
    """Also where the code catches the error and goes another way."""
    top = "try:\n    import helper\nexcept Exception:\n    class helper:\n        FOUND = 'none'\n"
    text = env_file(top=top).replace('"attack", 5', "helper.FOUND, 5")
    ref = publish(text, **{"helper.py": HELPER})
    source = find_source(ref, SourceOptions(trust_remote_code=True, sandbox=sandbox))
    assert load(source) == "as committed"
    set_writable(Path(source.directory), writable=True)
    Path(source.directory, "helper.py").write_text(SWAPPED)
    with pytest.raises(SourceCorrupt, match=r"helper\.py has changed"):
        load(source)


def test_a_module_that_is_imported_later(publish, sandbox):
    """When the env is made: the swap may come at any time."""
    text = env_file().replace("def make(task):", "def make(task):\n    import helper")
    ref = publish(text, **{"helper.py": HELPER})
    source = find_source(ref, SourceOptions(trust_remote_code=True, sandbox=sandbox))
    set_writable(Path(source.directory), writable=True)
    Path(source.directory, "helper.py").write_text(SWAPPED)
    spec = WorkerSpec(source, {}, Limits(), alone=True)
    with pytest.raises((SourceCorrupt, WorkerRaised), match=r"helper\.py has changed"):
        describe(spec, "here", with_spaces=True)


def test_a_compiled_extension_is_compared_too(publish, sandbox):
    """One of NumPy's own, as a file of the benchmark."""
    [extension] = Path(np.linalg.__file__).parent.glob("lapack_lite.*.so")
    text = env_file(top="from . import lapack_lite\n").replace('"attack", 5', '"loaded", 5')
    ref = publish(text, **{extension.name: extension.read_bytes()})
    source = find_source(ref, SourceOptions(trust_remote_code=True, sandbox=sandbox))
    assert load(source) == "loaded"
    set_writable(Path(source.directory), writable=True)
    with Path(source.directory, extension.name).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(SourceCorrupt, match=rf"{extension.name} has changed"):
        load(source)
