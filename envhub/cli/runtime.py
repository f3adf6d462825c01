"""`envhub runtime`: manage the interpreters that were built for benchmarks."""

import json
from typing import Any

import click

from envhub import directories
from envhub.cli.options import debug_option, json_option, message, one_line, show_download
from envhub.directories import PACKAGES, RUNTIMES
from envhub.errors import ExitCode, UnknownName, UsageError
from envhub.options import Limits, Say
from envhub.refs import HubRef, NameRef, PathRef
from envhub.runtime.provision import build, file_requirements, rebuild_line, requirements_of
from envhub.text import align, pluralize
from envhub.types import Interpreter, PluginSource, WorkerSpec

_MB = 10**6


@click.group("runtime")
def command() -> None:
    """List, build and remove the interpreters of benchmarks.

    A benchmark whose requirements are not installed here runs in a runtime: a virtual environment
    with exactly its requirements. A runtime is built on first use, and then works offline.

    \b
    Examples:
        envhub runtime list --json
        envhub runtime build ./my_env
        envhub runtime remove --all
    """  # noqa: D301 - click reads the backspace as "do not rewrap"


@command.command("list")
@json_option
@debug_option
def show(*, as_json: bool) -> None:
    """List the runtimes that are built, and whether each is intact.

    \b
    Example:
        envhub runtime list
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    runtimes = [_facts(built) for built in directories.all_built(RUNTIMES)]
    if as_json:
        click.echo(json.dumps({"runtimes": runtimes}, indent=2))
        return
    click.echo(_as_text(runtimes) if runtimes else "No runtimes are built.")


@command.command("build")
@click.argument("ref")
@click.option("--private", is_flag=True, help="Use your token to read a private repository.")
@click.option("--locked", is_flag=True, help="Use the packages in envhub.lock.")
@click.option(
    "--runtime", metavar="NAME", default="isolated", help="Another one that a plugin comes with."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@debug_option
def build_one(ref: str, *, private: bool, locked: bool, runtime: str, quiet: bool) -> None:
    """Build the runtime of the benchmark REF, if it is missing.

    No code of a Hub repository is run, so this needs no consent.

    \b
    Examples:
        envhub runtime build ./my_env
        envhub runtime build owner/repo@<commit> --locked
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    from envhub.sources.find import locate, read_reference

    progress = (lambda _: None) if quiet else message
    match read_reference(ref):
        case NameRef(name=name):
            built = _build_installed(name, runtime, progress)
        case PathRef() as path:
            source = locate(path)
            built = build(
                *requirements_of(source, None, runtime),
                name=source.name,
                line=rebuild_line(source),
                progress=progress,
            )
        case HubRef() as hub_ref:
            built = _build_of_hub(hub_ref, progress, private=private, locked=locked)
    click.echo(f"{built.key}  {built.python}")


@command.command("remove")
@click.argument("keys", nargs=-1, metavar="KEY...")
@click.option(
    "--all", "everything", is_flag=True, help="Remove all runtimes and the packages built for them."
)
@debug_option
@click.pass_context
def remove(context: click.Context, keys: tuple[str, ...], *, everything: bool) -> None:
    """Remove runtimes, like envhub cache clean.

    A runtime that a running process uses stays, and the exit code is 1. One that was removed is
    built again when it is next needed.

    \b
    Examples:
        envhub runtime remove KEY
        envhub runtime remove --all
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if everything == bool(keys):
        raise UsageError("Name the runtimes to remove, or give --all. See envhub runtime list.")
    from envhub.cli.cache import remove as remove_item  # asks plugins what they need
    from envhub.cli.cache_items import find_items

    kinds = (RUNTIMES.folder, PACKAGES.folder) if everything else (RUNTIMES.folder,)
    items = find_items(kinds)
    known = [item.name for item in items]
    for key in keys:
        if key not in known:
            raise UnknownName("runtime", key, known, advice="See envhub runtime list.")
    chosen = [item for item in items if everything or item.name in keys]
    gone = {item.name: remove_item(item) for item in chosen}
    for item in chosen:
        if gone[item.name] and item.kind == RUNTIMES.folder:
            click.echo(f"Removed {item.name}")
    if not all(gone.values()):
        context.exit(ExitCode.FOUND)


def _build_installed(name: str, runtime: str, progress: Say) -> Interpreter:
    """Build the runtime of a plugin, whose pins are known once it is loaded."""
    from envhub.discovery import find
    from envhub.host.loading import describe

    find(name)
    source = PluginSource(name)
    benchmark = describe(WorkerSpec(source, {}, Limits(), alone=True), "here").benchmark
    declared, pins = requirements_of(source, benchmark, runtime)
    return build(
        declared, pins, name=name, line=rebuild_line(source), plugin=name, progress=progress
    )


def _build_of_hub(ref: HubRef, progress: Say, *, private: bool, locked: bool) -> Interpreter:
    from envhub.runtime.pins import parse_pins
    from envhub.sources.fetch import obtain, resolve
    from envhub.sources.hub import Hub
    from envhub.sources.lock import check_lock, locked_pins

    if not ref.pinned:
        resolved = resolve(ref, Hub(private=private))
        message(f"{ref} is currently {resolved}.")
        ref = resolved
    stored = obtain(ref, private=private, on_progress=show_download)
    path = stored.directory / ref.path
    declared, pins = file_requirements(path)
    if locked:
        check_lock(ref, stored.manifest)
        lines = locked_pins(ref.repo_id)
        pins = parse_pins("\n".join(lines), "envhub.lock") if lines else pins
    return build(
        declared, pins, name=ref.repo, line=f"envhub runtime build {ref}", progress=progress
    )


def _as_text(runtimes: list[dict[str, Any]]) -> str:
    return "\n".join(map(one_line, align([_row(facts) for facts in runtimes], right=(1, 4))))


def _facts(built: directories.BuiltDirectory) -> dict[str, Any]:
    about = built.about
    return {
        "key": built.key,
        "for": about.get("for"),
        "state": "whole" if built.whole else "damaged",
        "bytes": directories.size_of(built.place),
        "built": about.get("built"),
        "python": about.get("python"),
        "packages": about.get("packages", {}),
        "path": str(built.place),
    }


def _row(facts: dict[str, Any]) -> list[str]:
    size = f"{facts['bytes'] / _MB:,.0f} MB"
    packages = pluralize(len(facts["packages"]), "package")
    names = ("built", "python", "state", "for")
    built, python, state, user = (str(facts[name] or "-") for name in names)
    return [facts["key"], size, built, python, packages, state, user]
