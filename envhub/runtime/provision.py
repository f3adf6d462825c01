"""Choose the interpreter of a benchmark: this one, or that of a runtime built for it.

A plugin names a file of complete pins in its package; an env file declares requirements, which are
resolved to pins. No code of a benchmark is executed here.
"""

import platform
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from envhub.declarations import Benchmark
from envhub.discovery import chosen, find, find_perturbation
from envhub.errors import (
    ContractError,
    RuntimeUnavailable,
    SourceCorrupt,
    UnknownName,
    UsageError,
)
from envhub.options import (
    RUNTIMES,
    SILENT,
    OtherVersions,
    RecordedRuntime,
    Reporter,
    RuntimeChoice,
    Say,
)
from envhub.sources.requirements import NotFromAnIndex, Requirements, requirements_at
from envhub.types import HERE, FileSource, Interpreter, Origin, PluginSource, Source

if TYPE_CHECKING:
    from envhub.runtime.pins import Pins
    from envhub.runtime.pythons import Python


def provision(
    source: Source,
    choice: RuntimeChoice,
    benchmark: Benchmark | None = None,
    *,
    locked: bool = False,
    inline: bool = False,
    perturbations: Iterable[str] = (),
    reporter: Reporter = SILENT,
) -> Interpreter:
    """Return the interpreter for a benchmark's workers; build its runtime if necessary.

    Args:
        source: The benchmark's code.
        choice: The user's `--runtime`.
        benchmark: The plugin's declaration. Until it is known, a plugin runs here.
        locked: Whether to use the pins of `envhub.lock`.
        inline: Whether the benchmark runs in this process, without workers.
        perturbations: The names of those whose code the workers load, too.
        reporter: Is told what the user should know, and of each step that takes long.

    Raises:
        RuntimeUnavailable: The runtime cannot be built.
        ContractError: The requirements are not valid.
        UsageError: A runtime is needed, but there are no workers; or there is no such runtime.
    """
    if isinstance(source, PluginSource) and benchmark is None:
        return HERE
    try:
        declared, pins = _required(source, benchmark, choice, locked=locked)
    except NotFromAnIndex as error:
        if choice != "here" or locked:
            error.args = (f"{error} {_INSTALL_IT}",)
            raise
        reporter.message(
            f"Running {source.name} in this interpreter, whatever it requires: {error}"
        )
        return replace(HERE, unmet=(str(error),))
    nothing = pins is None and declared == Requirements()
    if nothing and choice in ("auto", "here"):
        return HERE
    unmet = find_unmet(declared, pins)
    if choice == "here" or (choice == "auto" and not unmet):
        use_locked = locked and pins is not None
        interpreter = _use_this_interpreter(source, unmet, locked=use_locked, say=reporter.message)
        _tell_version_notes(benchmark, None, reporter.message)
        return interpreter
    _tell_version_notes(benchmark, pins, reporter.message)
    if inline:
        asked = choice if isinstance(choice, str) else "isolated"
        why = f"requires {unmet[0]}" if unmet else f"was requested with --runtime {asked}"
        raise UsageError(
            f"--workers 0 runs everything in this process, but {source.name} {why}. Omit "
            "--workers 0, or use --runtime here."
        )
    try:
        return build(
            declared,
            pins,
            name=source.name,
            line=rebuild_line(source),
            plugin=source.name if isinstance(source, PluginSource) else None,
            perturbations=perturbations,
            progress=reporter.progress,
        )
    except RuntimeUnavailable as error:
        if error.refused:
            error.args = (f"{error}\n{_about_here(error.said)}",)
        raise


_INSTALL_IT = (
    "Install it yourself, beside EnvHub in an environment of your own, and add --runtime here."
)


def _about_here(said: str) -> str:
    """Say whether an environment of the user's own helps where uv refuses to build one."""
    if _OTHER_PYTHON.search(said):
        return (
            f"--runtime here is this Python {platform.python_version()}, too: install EnvHub in a "
            "Python that the packages take, and run it there."
        )
    if _CONTRADICT.search(said) and not _ABSENT.search(said):
        return "--runtime here does not help: these packages cannot be installed together."
    return (
        "--runtime here helps if you can install the packages yourself, beside EnvHub in an "
        "environment of your own."
    )


# In uv's words:
_OTHER_PYTHON = re.compile(r"requires Python|Python (version|ABI) tag")
_ABSENT = re.compile("was not found|no usable wheels|there (is|are) no version")
_CONTRADICT = re.compile(
    r"\bincompatible\b|conclude that you require|you require (\w[\w.-]*)\S* and \1\b"
)


def build(
    declared: Requirements,
    pins: "Pins | None",
    *,
    name: str,
    line: str,
    plugin: str | None = None,
    perturbations: Iterable[str] = (),
    base: "Python | None" = None,
    progress: Say = lambda _: None,
) -> Interpreter:
    """Return the interpreter of the runtime for some requirements; build it unless it exists.

    Args:
        declared: The requirements of an env file.
        pins: Complete pins, which replace the declared packages.
        name: The benchmark's name.
        line: The command that tries again, for errors.
        plugin: The plugin that declares the benchmark.
        perturbations: The names of those whose code the workers load, too.
        base: The interpreter that it is built on; None: this one.
        progress: Receives a line for each step that takes long.

    Raises:
        RuntimeUnavailable: The runtime cannot be built.
    """
    # Imported here: most benchmarks run on this interpreter.
    from envhub.runtime.pythons import this_python
    from envhub.runtime.resolve import refuse_python, resolve
    from envhub.runtime.venv import ensure_runtime

    base = base or this_python()
    refuse_python(declared.python, name, base)
    complete = pins if pins is not None else resolve(declared, name=name, line=line, base=base)
    plugins = [*([plugin] if plugin else ()), *(chosen() or ())]
    distributions = [find(plugin).distribution for plugin in plugins]
    distributions += [find_perturbation(name).distribution for name in perturbations]
    return ensure_runtime(
        complete, distributions, name=name, line=line, base=base, progress=progress
    )


def requirements_of(
    source: Source, benchmark: Benchmark | None, choice: RuntimeChoice = "isolated"
) -> "tuple[Requirements, Pins | None]":
    """Return the requirements that a benchmark declares, and the complete pins it comes with.

    Args:
        source: The benchmark's code.
        benchmark: The plugin's declaration.
        choice: Decides which pins, of a plugin with several runtimes.

    Raises:
        ContractError: The requirements or the pins are not valid.
        UnknownName: There is no runtime of that name.
    """
    target = benchmark.runtime if benchmark is not None else None
    if isinstance(source, PluginSource) and target:
        return Requirements(), _plugin_pins(source, target, choice)
    if isinstance(choice, str) and choice not in RUNTIMES:
        raise UnknownName("runtime", choice, RUNTIMES)
    match source:
        case PluginSource():
            return Requirements(), None
        case FileSource(directory=directory, file=file):
            return file_requirements(Path(directory, file))


def keys_of(source: PluginSource, benchmark: Benchmark) -> set[str]:
    """Return the keys of all runtimes that a plugin comes with.

    Raises:
        ContractError: Its pins are not valid.
    """
    from envhub.runtime.pythons import this_python
    from envhub.runtime.venv import key_of

    if not (target := benchmark.runtime):
        return set()
    files = _runtime_files(source, target).values()
    return {key_of(_read_pins(target, path), this_python()) for path in files}


def file_requirements(path: Path) -> "tuple[Requirements, Pins | None]":
    """Return the requirements of an env file, and the pins of the file that it names."""
    declared = requirements_at(path)
    if declared.lock is None:
        return declared, None
    from envhub.runtime.pins import parse_pins

    pins = path.with_name(declared.lock)
    try:
        lines = pins.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ContractError(f"{path.name} names {declared.lock}, which cannot be read.") from exc
    return declared, parse_pins(lines, declared.lock)


def rebuild_line(source: Source) -> str:
    """Return the command that builds a benchmark's runtime."""
    match source:
        case PluginSource(name=name):
            ref = name
        case FileSource(origin=Origin(repo=repo, commit=commit), file=file):
            ref = f"{repo}@{commit}:{file}"
        case FileSource(directory=directory, file=file):
            ref = f"{directory}/{file}"
    return f"envhub runtime build {shlex.quote(ref)}"


def _required(
    source: Source, benchmark: Benchmark | None, choice: RuntimeChoice, *, locked: bool
) -> "tuple[Requirements, Pins | None]":
    if isinstance(choice, OtherVersions):
        return other_pins(source, benchmark, choice)
    declared, pins = requirements_of(source, benchmark, choice)
    if locked and isinstance(source, FileSource) and source.origin is not None:
        from envhub.sources.lock import locked_pins

        lines = locked_pins(source.origin.repo)
        if lines:
            from envhub.runtime.pins import parse_pins

            return declared, parse_pins("\n".join(lines), "envhub.lock")
    return declared, pins


def other_pins(
    source: Source, benchmark: Benchmark | None, choice: OtherVersions
) -> "tuple[Requirements, Pins]":
    """Return what a benchmark declares, and its pins with some packages in other versions.

    Raises:
        UnknownName: The benchmark's runtime has no such package.
        RuntimeUnavailable: There is no such version.
    """
    from envhub.runtime.resolve import resolve, with_versions

    declared, pins = requirements_of(source, benchmark, choice.begun)
    if pins is None:
        pins = resolve(declared, name=source.name, line=rebuild_line(source))
    asked = ",".join(f"{name}={version}" for name, version in choice.versions.items())
    again = f"envhub explain RUN --versions {asked}"
    return declared, with_versions(pins, choice.versions, name=source.name, line=again)


def expected_versions(
    source: Source, benchmark: Benchmark, choice: RuntimeChoice
) -> dict[str, str]:
    """Return the versions that a benchmark's workers will have, as far as its pins say them."""
    from envhub.runtime.pythons import installed_here

    _, pins = requirements_of(source, benchmark, choice)
    if pins is None:
        return {}
    pinned = {pin.name: pin.version for pin in pins.here().pins}
    return installed_here(tuple(pinned)) if choice == "here" else pinned


def find_unmet(declared: Requirements, pins: "Pins | None") -> tuple[str, ...]:
    """Return the requirements that this interpreter does not meet."""
    from envhub.runtime.installed import unmet_pins, unmet_requirements

    if pins is None:
        return unmet_requirements(declared)
    return (*unmet_requirements(replace(declared, packages=())), *unmet_pins(pins))


def _use_this_interpreter(
    source: Source, unmet: tuple[str, ...], *, locked: bool, say: Say
) -> Interpreter:
    if not unmet:
        return HERE
    from envhub.runtime.installed import NOT_INSTALLED

    names = [text.removesuffix(NOT_INSTALLED) for text in unmet[:5]]
    shown = ", ".join(names) + (f" and {len(unmet) - 5} more" if unmet[5:] else "")
    missing = f"{shown} {'is' if len(unmet) == 1 else 'are'} not installed"
    if locked:
        raise SourceCorrupt(f"{source.name} cannot run as locked: {missing} in this interpreter.")
    say(f"Running {source.name} in this interpreter although {missing}.")
    return replace(HERE, unmet=unmet)


def _tell_version_notes(benchmark: Benchmark | None, pins: "Pins | None", message: Say) -> None:
    """Tell what the plugin says of the versions in a runtime; without pins, of those here."""
    if benchmark is None or not benchmark.version_notes:
        return
    from envhub.runtime.installed import find_version

    for versions, note in benchmark.version_notes.items():
        found = find_version(versions, pins)
        if found is not None:
            message(f"{benchmark.name} runs with {found}, which {note}.")


def _plugin_pins(source: PluginSource, target: str, choice: RuntimeChoice) -> "Pins":
    """Read the pins in a file of the plugin's package, without importing the package."""
    files = _runtime_files(source, target)
    if isinstance(choice, RecordedRuntime):  # the declared one is the first, and taken if in doubt
        all_pins = [_read_pins(target, path) for path in files.values()]
        return min(all_pins, key=lambda pins: _differences(pins, choice))
    asked = choice.begun if isinstance(choice, OtherVersions) else choice
    name = "isolated" if asked in RUNTIMES else str(asked)
    if name not in files:
        raise UnknownName("runtime", name, {*RUNTIMES, *files})
    return _read_pins(target, files[name])


def _read_pins(target: str, path: Path) -> "Pins":
    from envhub.runtime.pins import parse_pins

    name = f"{target.partition(':')[0]}:{path.name}"
    return parse_pins(path.read_text(encoding="utf-8"), name, may_build=True)


def _runtime_files(source: PluginSource, target: str) -> dict[str, Path]:
    """Return the plugin's files of pins by the names of their runtimes, the declared one first.

    A file `runtime-NAME.txt` is a further runtime beside `runtime.txt`.
    """
    package, _, file = target.partition(":")
    top, *rest = package.split(".")
    spec = util.find_spec(top)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, *rest, file)
        if path.is_file():
            further = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}"))
            named = {p.stem.removeprefix(f"{path.stem}-"): p for p in further}
            return {"isolated": path, **named}
    raise ContractError(f"Plugin {source.name!r} names {target}, but that file does not exist.")


def _differences(pins: "Pins", recorded: RecordedRuntime) -> tuple[bool, int]:
    """Whether the key is another, and the number of packages that are: keys change with EnvHub."""
    from envhub.runtime.pythons import this_python
    from envhub.runtime.venv import former_key_of, key_of

    versions = {pin.name: pin.version for pin in pins.here().pins}
    other = sum(versions.get(name) != version for name, version in recorded.packages.items())
    keys = (key_of(pins, this_python()), former_key_of(pins, this_python()))
    return recorded.key not in keys, other
