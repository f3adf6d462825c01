"""`envhub search`: find benchmarks on the Hub."""

import json
from dataclasses import asdict

import click

from envhub.cli.options import WholeNumber, debug_option, escaped, excerpt, json_option
from envhub.sources.hub import Hub, SearchHit
from envhub.text import align


@click.command("search")
@click.argument("words", nargs=-1)
@click.option("--limit", type=WholeNumber(1, 100), default=20, help="Maximum number of results.")
@json_option
@debug_option
def command(words: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Find repositories with the tag envhub; only their metadata is read.

    Each is shown as a reference to its newest commit, for `envhub trust` and `envhub eval`.

    \b
    Examples:
        envhub search reach
        envhub search --limit 50 --json
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    repositories = Hub().search(" ".join(words), limit)
    click.echo(_as_json(repositories) if as_json else _as_text(repositories))


def _as_json(repositories: list[SearchHit]) -> str:
    return json.dumps({"found": [asdict(found) for found in repositories]}, indent=2)


def _as_text(repositories: list[SearchHit]) -> str:
    if not repositories:
        return "No repositories were found."
    rows = [
        (_ref(one), (one.updated or "")[:10], f"{one.downloads:,} downloads")
        for one in repositories
    ]
    return "\n".join(map(escaped, align(rows, right=(2,))))


def _ref(found: SearchHit) -> str:
    return excerpt(f"{found.repo}@{found.commit}" if found.commit else found.repo)
