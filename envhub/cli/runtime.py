"""`envhub runtime`: the interpreters that were built for benchmarks."""

import json
from typing import Any

import click

from envhub.cli.options import debug_option, json_option, message, one_line, show_download
from envhub.errors import UnknownName, UsageError
from envhub.refs import HubRef, NameRef, PathRef, parse
from envhub.runtime import build_cache
from envhub.runtime.provision import build, file_requirements, rebuild_line, requirements_of
from envhub.runtime.resolve import forget
from envhub.runtime.venv import KIND
from envhub.types import Interpreter, Limits, PluginSource, WorkerSpec

_MB = 10**6


@click.group("runtime")
def command() -> None:
    """List, build and remove the interpreters that were built for benchmarks.

    A benchmark that requires what is not installed here runs in a runtime: a virtual environment
    with exactly what it requires. It is built when it is first needed; afterwards no network is.

    \b
    Examples:
        envhub runtime list --json
        envhub runtime build ./my_env
        envhub runtime remove --all
    """  # noqa: D301 - click takes the backspace as "do not rewrap"


@command.command("list")
@json_option
@debug_option
def show(*, as_json: bool) -> None:
    """List the runtimes that are built, and whether each is whole."""
    found = [_facts(one) for one in build_cache.all_built(KIND)]
    if as_json:
        click.echo(json.dumps({"runtimes": found}, indent=2))
        return
    click.echo("\n".join(map(_line, found)) if found else "No runtime is built.")


@command.command("build")
@click.argument("ref")
@click.option("--private", is_flag=True, help="Use your token, for a private repository.")
@click.option("--locked", is_flag=True, help="Build what envhub.lock says.")
@click.option("--quiet", is_flag=True, help="No progress.")
@debug_option
def build_one(ref: str, *, private: bool, locked: bool, quiet: bool) -> None:
    """Build the runtime of the benchmark REF, unless it is there.

    No code of a Hub repository is run, so that this needs no consent.
    """
    progress = (lambda _: None) if quiet else message
    match parse(ref):
        case NameRef(name=name):
            built = _build_installed(name, progress)
        case PathRef() as path:
            from envhub.sources.find import locate

            source = locate(path)
            built = build(
                *requirements_of(source, None),
                name=source.name,
                line=rebuild_line(source),
                progress=progress,
            )
        case HubRef() as hub_ref:
            built = _build_of_hub(hub_ref, progress, private=private, locked=locked)
    click.echo(f"{built.key}  {built.python}")


@command.command("remove")
@click.argument("keys", nargs=-1, metavar="KEY...")
@click.option("--all", "everything", is_flag=True, help="All of them, and what they were made of.")
@debug_option
def remove(keys: tuple[str, ...], *, everything: bool) -> None:
    """Remove runtimes. What runs in one may fail; what needs it later builds it again."""
    if everything == bool(keys):
        raise UsageError("Name the runtimes to remove, or take --all. See envhub runtime list.")
    known = {one.key: one.about for one in build_cache.all_built(KIND)}
    for key in keys:
        if key not in known:
            raise UnknownName("runtime", key, known, advice="See envhub runtime list.")
    chosen = build_cache.known_keys(KIND) if everything else keys
    for key in chosen:
        if build_cache.remove(KIND, key):
            click.echo(f"Removed {key}")
        forget(str(known.get(key, {}).get("pins")))
    if everything:
        for key in build_cache.known_keys("packages"):
            build_cache.remove("packages", key)


def _build_installed(name: str, progress: build_cache.Say) -> Interpreter:
    """A plugin's, which has to be asked for its pins first."""
    from envhub.host.loading import describe
    from envhub.plugins import find

    find(name)
    source = PluginSource(name)
    benchmark = describe(WorkerSpec(source, {}, Limits(), alone=True), "here").benchmark
    declared, pins = requirements_of(source, benchmark)
    return build(
        declared, pins, name=name, line=rebuild_line(source), plugin=name, progress=progress
    )


def _build_of_hub(
    ref: HubRef, progress: build_cache.Say, *, private: bool, locked: bool
) -> Interpreter:
    from envhub.runtime.pins import parse_pins
    from envhub.sources.fetch import obtain, resolve
    from envhub.sources.hub import Hub
    from envhub.sources.lock import check_lock, locked_pins

    if not ref.pinned:
        resolved = resolve(ref, Hub(private=private)).ref
        message(f"{ref} is {resolved} now.")
        ref = resolved
    stored = obtain(ref, private=private, on_progress=show_download)
    path = stored.directory / ref.path
    declared, pins = file_requirements(path.read_text(encoding="utf-8", errors="replace"), path)
    if locked:
        check_lock(ref, stored.manifest)
        lines = locked_pins(ref.repo_id)
        pins = parse_pins("\n".join(lines), "envhub.lock") if lines else pins
    return build(
        declared, pins, name=ref.repo, line=f"envhub runtime build {ref}", progress=progress
    )


def _facts(one: build_cache.Built) -> dict[str, Any]:
    about = one.about
    return {
        "key": one.key,
        "for": about.get("for"),
        "state": "whole" if one.whole else "damaged",
        "bytes": build_cache.size_of(one.place),
        "built": about.get("built"),
        "python": about.get("python"),
        "packages": about.get("packages", {}),
        "path": str(one.place),
    }


def _line(facts: dict[str, Any]) -> str:
    size = f"{facts['bytes'] / _MB:,.0f} MB"
    packages = f"{len(facts['packages'])} packages"
    parts = (facts["key"], f"{size:>9}", facts["built"], facts["python"], packages)
    shown = "  ".join(str(part or "-") for part in parts)
    return one_line(f"{shown}  {facts['state']:<7}  {facts['for'] or '-'}")
