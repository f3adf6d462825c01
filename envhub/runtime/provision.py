"""Which interpreter a benchmark runs on: this one, or that of a runtime built for it.

A plugin names a file of complete pins in its package; an env file declares requirements, which are
resolved to pins. Nothing of either is executed here.
"""

import shlex
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from envhub.errors import ContractError, SourceCorrupt, UsageError
from envhub.plugins import chosen, find
from envhub.sources.lock import locked_pins
from envhub.sources.requirements import Requirements, read_requirements
from envhub.types import (
    HERE,
    Benchmark,
    FileSource,
    Interpreter,
    Origin,
    PluginSource,
    RuntimeChoice,
    Source,
)

if TYPE_CHECKING:
    from envhub.runtime.pins import Pins

Say = Callable[[str], None]


def provision(
    source: Source,
    choice: RuntimeChoice,
    benchmark: Benchmark | None = None,
    *,
    locked: bool = False,
    inline: bool = False,
    message: Say = lambda _: None,
    progress: Say = lambda _: None,
) -> Interpreter:
    """The interpreter that a benchmark's workers are to run on; built if need be.

    Args:
        source: The benchmark's code.
        choice: What the user wants.
        benchmark: What a plugin declares. Before that is known, a plugin runs here.
        locked: Whether to take the pins of `envhub.lock`.
        inline: Whether there are to be no workers.
        message: Receives what the user should know.
        progress: Receives what takes its time.

    Raises:
        RuntimeUnavailable: The runtime cannot be built.
        ContractError: What is required makes no sense.
        UsageError: A runtime is needed, but there are to be no workers.
    """
    if isinstance(source, PluginSource) and benchmark is None:
        return HERE
    declared, pins = _required(source, benchmark, locked=locked)
    nothing = pins is None and declared == Requirements()
    if nothing and choice != "isolated":
        return HERE
    unmet = _unmet(declared, pins)
    if choice == "here" or (choice == "auto" and not unmet):
        return _stay(source, unmet, locked=locked and pins is not None, message=message)
    if inline:
        why = f"requires what is not here: {unmet[0]}" if unmet else "is to have its own"
        raise UsageError(
            f"--workers 0 runs everything in this process, but {source.name} {why}. Leave "
            "--workers 0 out, or take --runtime here."
        )
    return build(
        declared,
        pins,
        name=source.name,
        line=rebuild_line(source),
        plugin=source.name if isinstance(source, PluginSource) else None,
        progress=progress,
    )


def build(
    declared: Requirements,
    pins: "Pins | None",
    *,
    name: str,
    line: str,
    plugin: str | None = None,
    progress: Say = lambda _: None,
) -> Interpreter:
    """The interpreter of the runtime for what is required; built unless it is there.

    Args:
        declared: What an env file declares.
        pins: Complete pins, if there are any.
        name: Of the benchmark.
        line: What to type to try again.
        plugin: The one that the benchmark comes with.
        progress: Receives what takes its time.

    Raises:
        RuntimeUnavailable: It cannot be built.
    """
    # Imported here: most benchmarks run on this interpreter.
    from envhub.runtime.resolve import refuse_python, resolve
    from envhub.runtime.venv import ensure_runtime

    refuse_python(declared.python, name)
    complete = pins if pins is not None else resolve(declared, name=name, line=line)
    plugins = [*([plugin] if plugin else ()), *(chosen() or ())]
    distributions = [find(plugin).distribution for plugin in plugins]
    return ensure_runtime(complete, distributions, name=name, line=line, progress=progress)


def requirements_of(
    source: Source, benchmark: Benchmark | None
) -> "tuple[Requirements, Pins | None]":
    """What a benchmark requires: as it declares it, and the complete pins that it comes with.

    Raises:
        ContractError: It makes no sense.
    """
    match source:
        case PluginSource():
            target = benchmark.runtime if benchmark is not None else None
            return Requirements(), _plugin_pins(source, target) if target else None
        case FileSource(directory=directory, file=file):
            path = Path(directory, file)
            return file_requirements(path.read_text(encoding="utf-8", errors="replace"), path)


def file_requirements(text: str, path: Path) -> "tuple[Requirements, Pins | None]":
    """What the text of an env file declares, and the pins of the file beside it that it names."""
    declared = read_requirements(text, path.name)
    if declared.lock is None:
        return declared, None
    from envhub.runtime.pins import parse_pins

    beside = path.with_name(declared.lock)
    try:
        lines = beside.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ContractError(f"{path.name} names {declared.lock}, which cannot be read.") from exc
    return declared, parse_pins(lines, declared.lock)


def rebuild_line(source: Source) -> str:
    """What to type to build a benchmark's runtime."""
    match source:
        case PluginSource(name=name):
            ref = name
        case FileSource(origin=Origin(repo=repo, commit=commit), file=file):
            ref = f"{repo}@{commit}:{file}"
        case FileSource(directory=directory, file=file):
            ref = f"{directory}/{file}"
    return f"envhub runtime build {shlex.quote(ref)}"


def _required(
    source: Source, benchmark: Benchmark | None, *, locked: bool
) -> "tuple[Requirements, Pins | None]":
    declared, pins = requirements_of(source, benchmark)
    if locked and isinstance(source, FileSource) and source.origin is not None:
        lines = locked_pins(source.origin.repo)
        if lines:
            from envhub.runtime.pins import parse_pins

            return declared, parse_pins("\n".join(lines), "envhub.lock")
    return declared, pins


def _unmet(declared: Requirements, pins: "Pins | None") -> tuple[str, ...]:
    from envhub.runtime.installed import unmet_pins, unmet_requirements

    if pins is None:
        return unmet_requirements(declared)
    return (*unmet_requirements(replace(declared, packages=())), *unmet_pins(pins))


def _stay(source: Source, unmet: tuple[str, ...], *, locked: bool, message: Say) -> Interpreter:
    if not unmet:
        return HERE
    shown = ", ".join(unmet[:5]) + (f" and {len(unmet) - 5} more" if unmet[5:] else "")
    if locked:
        raise SourceCorrupt(f"{source.name} is locked to what is not here: {shown}.")
    message(f"{source.name} runs here all the same, but requires {shown}.")
    return replace(HERE, unmet=unmet)


def _plugin_pins(source: PluginSource, target: str) -> "Pins":
    """The pins in a file of the plugin's package, which is found without importing it."""
    from envhub.runtime.pins import parse_pins

    package, _, file = target.partition(":")
    top, *rest = package.split(".")
    spec = util.find_spec(top)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, *rest, file)
        if path.is_file():
            return parse_pins(path.read_text(encoding="utf-8"), target, may_build=True)
    raise ContractError(f"Plugin {source.name!r} names {target}, but there is no such file.")
