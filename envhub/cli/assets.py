"""`envhub assets`: the files of benchmarks that come from Hub datasets."""

import json
from typing import Any

import click

from envhub.cli.options import debug_option, json_option, message, one_line, show_download
from envhub.errors import ExitCode, SourceCorrupt, UnknownName, UsageError
from envhub.options import Limits
from envhub.refs import HubRef, NameRef, parse
from envhub.sources import asset_pins
from envhub.sources.asset_pins import AssetPin, PinnedAssets
from envhub.sources.profiles import ASSETS
from envhub.text import pluralize
from envhub.types import PluginSource, WorkerSpec

_MB = 2**20
_private = click.option("--private", is_flag=True, help="Use your token to read a private dataset.")
_quiet = click.option("--quiet", is_flag=True, help="Show no progress.")
_name = click.argument("name", metavar="BENCHMARK|OWNER/DATASET")


@click.group("assets")
def command() -> None:
    """List, fetch, update and remove the files of benchmarks that are in Hub datasets.

    A benchmark such as libero needs meshes that its package does not have. They are fetched on
    first use and stay at that commit until you update them. `--env-arg` and the benchmark's own
    variable name a copy of yours instead.

    \b
    Examples:
        envhub assets fetch libero
        envhub assets list --json
        envhub assets update libero
    """  # noqa: D301 - click reads the backspace as "do not rewrap"


@command.command("list")
@json_option
@debug_option
def show(*, as_json: bool) -> None:
    """List the sets of files that are kept, and whether each is intact.

    \b
    Example:
        envhub assets list
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    sets = [_facts(pin) for pin in asset_pins.all_pins()]
    if as_json:
        click.echo(json.dumps({"assets": sets}, indent=2))
        return
    click.echo("\n".join(map(_line, sets)) if sets else "No assets are kept.")


@command.command("fetch")
@_name
@_private
@_quiet
@debug_option
def fetch(name: str, *, private: bool, quiet: bool) -> None:
    """Fetch the files of a benchmark, or of a dataset, if they are missing.

    Do this where there is a network, before a job runs where there is none. A fetch that was
    interrupted is continued.

    \b
    Examples:
        envhub assets fetch libero
        envhub assets fetch lerobot/libero-assets
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    for repo in _datasets(name):
        on_progress = (lambda *_: None) if quiet else show_download
        found = asset_pins.obtain(repo, private=private, on_progress=on_progress)
        click.echo(_summary(found))


@command.command("update")
@_name
@_private
@_quiet
@debug_option
def update(name: str, *, private: bool, quiet: bool) -> None:
    """Use the newest commit of a benchmark's files from now on.

    Runs with other files are not comparable with those before. The files of the former commit
    stay, for runs that are under way, until `envhub assets remove`.

    \b
    Example:
        envhub assets update libero
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    for repo in _datasets(name):
        on_progress = (lambda *_: None) if quiet else show_download
        before = asset_pins.recall(repo)
        found = asset_pins.update(repo, private=private, on_progress=on_progress)
        if before is not None:
            same = before.digest == found.pin.digest
            message(f"{repo}: {'the files are the same' if same else 'the files have changed'}.")
        click.echo(_summary(found))


@command.command("remove")
@click.argument("names", nargs=-1, metavar="BENCHMARK|OWNER/DATASET...")
@click.option("--all", "everything", is_flag=True, help="Remove all sets.")
@debug_option
@click.pass_context
def remove(context: click.Context, names: tuple[str, ...], *, everything: bool) -> None:
    """Remove sets of files, at all commits, like envhub cache clean, and keep no commit any more.

    The next use fetches the commit that is the newest then. Files that a running process uses stay,
    and the exit code is 1.

    \b
    Examples:
        envhub assets remove libero
        envhub assets remove --all
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if everything == bool(names):
        raise UsageError("Name the sets to remove, or give --all. See envhub assets list.")
    from envhub.cli.cache import remove as remove_item
    from envhub.cli.cache_items import find_items

    known = [pin.repo for pin in asset_pins.all_pins()]
    items = find_items((ASSETS.folder,))
    for repo in known if everything else [repo for name in names for repo in _datasets(name)]:
        own = [item for item in items if item.is_named(repo)]
        if not asset_pins.forget(repo) and not own:
            raise UnknownName("set of assets", repo, known, advice="See envhub assets list.")
        if [item for item in own if not remove_item(item)]:
            context.exit(ExitCode.FOUND)
        click.echo(f"Removed {repo}")


def _datasets(name: str) -> list[str]:
    """Return the datasets of a benchmark, or the one that is named itself.

    Raises:
        UsageError: It is neither, or the benchmark needs none.
    """
    match parse(name):
        case NameRef():
            return _datasets_of_plugin(name)
        case HubRef(revision=None) as ref if not name.endswith(".py"):
            return [ref.repo_id]
        case _:
            raise UsageError(
                f"{name} is neither an installed benchmark nor a dataset of the Hub. Write e.g. "
                "libero, or owner/dataset."
            )


def _datasets_of_plugin(name: str) -> list[str]:
    from envhub.discovery import find
    from envhub.host.loading import describe

    find(name)
    spec = WorkerSpec(PluginSource(name), {}, Limits(), alone=True)
    assets = describe(spec, "here").benchmark.assets
    if not assets:
        raise UsageError(f"{name} needs no files besides those of its package.")
    return [asset.repo for asset in assets]


def _facts(pin: AssetPin) -> dict[str, Any]:
    try:
        found = asset_pins.load(pin)
        state = "missing" if found is None else "whole"
    except SourceCorrupt:
        found, state = None, "damaged"
    return {
        "repo": pin.repo,
        "commit": pin.commit,
        "digest": pin.digest,
        "endpoint": pin.endpoint,
        "fetched": pin.fetched,
        "state": state,
        "files": found.files if found else None,
        "bytes": found.size if found else None,
        "path": str(found.directory) if found else None,
    }


def _line(facts: dict[str, Any]) -> str:
    size = "-" if facts["bytes"] is None else f"{facts['bytes'] / _MB:,.0f} MB"
    parts = (f"{facts['repo']}@{facts['commit']}", f"{size:>9}", facts["state"], facts["fetched"])
    return one_line("  ".join(parts))


def _summary(found: PinnedAssets) -> str:
    size = f"{pluralize(found.files, 'file')}, {found.size / _MB:,.0f} MB"
    return f"{found.pin.repo}@{found.pin.commit}  {size}\n{found.directory}"
