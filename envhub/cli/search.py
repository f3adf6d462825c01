"""`envhub search`: find benchmarks on the Hub."""

import json
from dataclasses import asdict

import click

from envhub.cli.options import debug_option, escaped, excerpt, json_option
from envhub.sources.hub import Found, Hub


@click.command("search")
@click.argument("words", nargs=-1)
@click.option("--limit", type=click.IntRange(1, 100), default=20, help="Results at most.")
@json_option
@debug_option
def command(words: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Find repositories with the tag envhub; only their metadata is read.

    Each is shown at its newest commit, as `envhub trust` and `envhub eval` take it.

    \b
    Examples:
        envhub search reach
        envhub search --limit 50 --json
    """  # noqa: D301 - click takes the backspace as "do not rewrap"
    found = Hub().search(" ".join(words), limit)
    click.echo(_as_json(found) if as_json else _as_text(found))


def _as_json(found: list[Found]) -> str:
    return json.dumps({"found": [asdict(one) for one in found]}, indent=2)


def _as_text(found: list[Found]) -> str:
    if not found:
        return "Nothing was found."
    rows = [(_ref(one), (one.updated or "")[:10], one) for one in found]
    width = max(len(ref) for ref, _, _ in rows)
    return "\n".join(
        escaped(f"{ref:<{width}}  {day:10}  {one.downloads:>8,} downloads")
        for ref, day, one in rows
    )


def _ref(found: Found) -> str:
    return excerpt(f"{found.repo}@{found.commit}" if found.commit else found.repo)
