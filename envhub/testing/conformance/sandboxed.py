"""The same code as if it came from the Hub: confined, without network, with a scratch directory."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from envhub.discovery import find
from envhub.options import SandboxChoice
from envhub.sandbox.choose import choose, confine_foreign
from envhub.scratch import scratch_directory
from envhub.types import FileSource, Origin, PluginSource, WorkerSpec

_ORIGIN = Origin("local/check", "0" * 40, "", "git", "flag", {})
# The plugin's hooks, as a file: only files are confined.
_STUB = """\
import {module} as plugin

globals().update({{k: v for k, v in vars(plugin).items() if k.startswith("envhub_")}})
"""


@contextmanager
def confined(spec: WorkerSpec, choice: SandboxChoice) -> Iterator[WorkerSpec]:
    """What a worker in the sandbox is started from, for the same benchmark.

    Raises:
        SandboxUnavailable: No sandbox works here.
    """
    sandbox = choose(choice)
    assets = tuple(asset.path for asset in spec.assets)
    match spec.source:
        case FileSource() as source:
            limits = confine_foreign(sandbox, (source.directory, *assets))
            yield replace(spec, source=replace(source, origin=_ORIGIN, confinement=limits))
        case PluginSource(name=name):
            with scratch_directory() as directory:
                module = find(name).module
                Path(directory, "env.py").write_text(_STUB.format(module=module))
                limits = confine_foreign(sandbox, (str(directory), *_places(module), *assets))
                stub = FileSource(str(directory), "env.py", "envhub_check", name, _ORIGIN, limits)
                yield replace(spec, source=stub)


def _places(module: str) -> tuple[str, ...]:
    """Where the plugin's package is, which may be elsewhere than the interpreter's packages."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent
    return (str(folder.parent if spec.submodule_search_locations else folder),)
