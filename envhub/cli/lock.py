"""`envhub trust --lock`, and its name of before, `envhub lock`: record files and packages."""

from pathlib import Path

import click

from envhub.cli.hub_facts import packages_text
from envhub.cli.options import debug_option, local_path, message, show_download
from envhub.errors import UsageError
from envhub.refs import HubRef, parse
from envhub.runtime.index import describe_packages
from envhub.runtime.pins import parse_pins
from envhub.sources.fetch import obtain, resolve
from envhub.sources.hub import Hub
from envhub.sources.lock import LOCK, write_lock
from envhub.sources.store import Stored
from envhub.text import pluralize


@click.command("lock", hidden=True)
@click.argument("ref")
@click.option("--out", callback=local_path, default=LOCK, help="Lock file to write.")
@click.option("--private", is_flag=True, help="Use your token to read a private repository.")
@debug_option
def command(ref: str, *, out: Path, private: bool) -> None:
    """Record REF's commit, the hash of every file and the required packages in envhub.lock.

    With --locked, other commands refuse anything that differs from the lock. No code is run.

    \b
    Examples, by its name of today:
        envhub trust --lock owner/repo@main
        envhub eval owner/repo@<commit> --locked --trust-remote-code
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    lock(ref, out, private=private)


def lock(ref: str, out: Path, *, private: bool) -> None:
    """Write the lock of a Hub reference, and show the packages.

    Raises:
        UsageError: It is not a Hub reference.
    """
    parsed = parse(ref)
    if not isinstance(parsed, HubRef):
        raise UsageError(f"{ref} is not a Hub reference; only those can be locked.")
    if not parsed.pinned:
        parsed = resolve(parsed, Hub(private=private))
        message(f"{ref} is currently {parsed}.")
    stored = obtain(parsed, private=private, on_progress=show_download)
    pins = _pins(parsed, stored)
    write_lock(parsed, stored, out, pins=pins)
    files = len(stored.manifest.files)
    click.echo(
        f"{parsed} locked in {out}: {pluralize(files, 'file')}, {pluralize(len(pins), 'package')}"
    )
    if pins:
        facts = describe_packages(parse_pins("\n".join(pins), str(out)).here())
        click.echo("\n".join(packages_text(facts, whole=True)))


def _pins(ref: HubRef, stored: Stored) -> list[str]:
    """Resolve its requirements to pinned packages; none if it has no requirements."""
    from envhub.runtime.provision import file_requirements
    from envhub.runtime.resolve import resolve

    declared, pins = file_requirements(stored.directory / ref.path)
    if pins is None and not declared.packages:
        return []
    if pins is None:
        pins = resolve(declared, name=ref.repo, line=f"envhub trust --lock {ref}")
    return pins.text().splitlines()
