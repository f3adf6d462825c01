"""`envhub cache`: what the cache has, and removing what is not needed any more."""

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby

import click

from envhub.cli.cache_items import KINDS, CacheItem, find_items
from envhub.cli.options import debug_option, escaped, json_option, message, one_line
from envhub.cli.output import columns
from envhub.errors import ExitCode, UnknownName, UsageError
from envhub.files import cache_home
from envhub.text import align, fold, pluralize

_GB, _MB, _KB = 10**9, 10**6, 10**3
_DAY = 24 * 3600.0

_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_dry = click.option("--dry-run", is_flag=True, help="Remove nothing, but say what would be.")


def _kinds(_ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(text)]


@click.group("cache")
def command() -> None:
    """List and clean what EnvHub fetched and built.

    All of it can be fetched or built again. What a running process uses is never removed.

    \b
    Examples:
        envhub cache list --json
        envhub cache prune --dry-run
        envhub cache clean checkpoints
    """  # noqa: D301 - click reads the backspace as "do not rewrap"


@command.command("list")
@click.argument("kinds", nargs=-1, metavar="[KIND...]", shell_complete=_kinds)
@json_option
@debug_option
def show(kinds: tuple[str, ...], *, as_json: bool) -> None:
    """List what is in the cache: size, last use, and what still needs it.

    KIND is runtimes, packages (EnvHub's own copies for runtimes), sources, assets, checkpoints,
    tokenizers, models, published-runs or uv; none: all.

    \b
    Examples:
        envhub cache list
        envhub cache list runtimes checkpoints --json
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    items = find_items(kinds)
    if as_json:
        click.echo(_as_json({"items": [item.facts() for item in items]}, items))
    elif items:
        click.echo(_as_text(items))
    else:
        click.echo(escaped(f"Nothing is in {cache_home()}."))


@command.command("clean")
@click.argument("names", nargs=-1, metavar="KIND|NAME...", shell_complete=_kinds)
@click.option("--all", "everything", is_flag=True, help="Everything, apart from uv's cache.")
@_yes
@_dry
@json_option
@debug_option
@click.pass_context
def clean(
    context: click.Context,
    names: tuple[str, ...],
    *,
    everything: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove kinds of things, or single ones, whether something needs them or not.

    A NAME is one of `envhub cache list`; a commit may be cut, and without one all commits are
    meant. The exit code is 1 if a running process uses something of it, which stays.

    \b
    Examples:
        envhub cache clean checkpoints
        envhub cache clean owner/policy@0123abcd --dry-run
        envhub cache clean --all --yes
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if everything == bool(names):
        raise UsageError("Name what to remove, or give --all. See envhub cache list.")
    items = find_items(KINDS[:-1]) if everything else find_items()
    for name in names:
        if name not in KINDS and not any(item.is_named(name) for item in items):
            known = {*KINDS, *(item.name for item in items)}
            raise UnknownName("thing in the cache", name, known, advice="See envhub cache list.")
    chosen = [item for item in items if everything or any(map(item.is_named, names))]
    _remove(context, chosen, yes=yes, dry_run=dry_run, as_json=as_json)


@command.command("prune")
@click.option(
    "--unused-for",
    metavar="DAYS",
    type=click.IntRange(min=0),
    default=30,
    help="Keep what was used more recently.",
)
@_yes
@_dry
@json_option
@debug_option
@click.pass_context
def prune(
    context: click.Context, *, unused_for: int, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove what nothing is known to need and nobody has used for a while.

    Needed are the runtimes of installed plugins and of files that still exist, EnvHub's copies of
    what is installed now, code that you agreed to run, and the commits that `envhub assets` keeps.
    uv's cache is left alone.

    \b
    Examples:
        envhub cache prune --dry-run
        envhub cache prune --unused-for 7 --yes
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    before = time.time() - unused_for * _DAY
    items = [item for item in find_items(KINDS[:-1]) if not item.needed_by and not item.in_use]
    chosen = [item for item in items if item.last_used <= before]
    _remove(context, chosen, yes=yes, dry_run=dry_run, as_json=as_json)


def _remove(
    context: click.Context, items: Sequence[CacheItem], *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Ask, unless told not to; remove; and say what was removed and what is in use."""
    size = _size(sum(item.size for item in items))
    if not dry_run and not yes and items:
        if not sys.stdin.isatty():
            raise UsageError(
                f"{pluralize(len(items), 'thing')} with {size} would be removed, and there is no "
                "terminal to ask on. Give --yes, or --dry-run to see what."
            )
        click.echo(_as_text(items), err=True)
        click.confirm(f"Remove this ({size})?", default=False, abort=True, err=True)
    removed = [item for item in items if (not item.in_use if dry_run else remove(item))]
    left = [item for item in items if item not in removed]
    if as_json:
        names = {"removed": [i.facts() for i in removed], "in_use": [i.facts() for i in left]}
        click.echo(_as_json({**names, "dry_run": dry_run}, removed))
    else:
        verb = "Would remove" if dry_run else "Removed"
        for item in removed:
            click.echo(one_line(f"{verb} {item.name} ({_size(item.size)})"))
        total = _size(sum(item.size for item in removed))
        click.echo(f"{verb} {total}." if removed else "Nothing to remove.")
    if left:
        context.exit(ExitCode.FOUND)


def remove(item: CacheItem) -> bool:
    """Remove an item; say so if a running process uses it, which returns False.

    Raises:
        UsageError: The cache cannot be written.
    """
    try:
        gone = item.remove()
    except OSError as exc:
        raise UsageError(
            f"{exc.filename or item.place} cannot be removed: {exc.strerror or exc}."
        ) from exc
    if not gone:
        message(f"A running process uses {item.name}: it stays.")
    return gone


def _as_json(content: dict[str, object], items: Sequence[CacheItem]) -> str:
    total = sum(item.size for item in items)
    return json.dumps({"cache": str(cache_home()), "bytes": total, **content}, indent=2)


def _as_text(items: Sequence[CacheItem]) -> str:
    lines = []
    for kind, group in groupby(items, key=lambda item: item.kind):
        same = list(group)
        lines.append(f"{kind}: {_size(sum(item.size for item in same))}")
        rows = [[_short(item.name), _size(item.size), _day(item), _why(item)] for item in same]
        lines += [one_line(f"  {line}") for line in align(rows, right=(1,))]
    total = _size(sum(item.size for item in items))
    lines.append(one_line(f"{total} in {cache_home()}"))
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        lines = [part for line in lines for part in fold(line, columns(), " " * 8)]
    return "\n".join(lines)


def _why(item: CacheItem) -> str:
    notes = ["in use"] if item.in_use else []
    notes += [] if item.whole else ["unfinished"]
    notes += [f"needed by {item.needed_by}"] if item.needed_by else []
    return ", ".join(notes) or "-"


def _short(name: str) -> str:
    what, at, commit = name.partition("@")
    return f"{what}{at}{commit[:12]}"


def _day(item: CacheItem) -> str:
    return datetime.fromtimestamp(item.last_used, UTC).date().isoformat()


def _size(size: int) -> str:
    for unit, name in ((_GB, "GB"), (_MB, "MB"), (_KB, "kB")):
        if size >= unit:
            return (
                f"{size / unit:,.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
            )
    return f"{size} B"
