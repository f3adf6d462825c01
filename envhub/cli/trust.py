"""`envhub trust`: review code from the Hub and agree to run it."""

import json
import sys
from pathlib import Path

import click
import msgspec

from envhub.cli.hub_facts import show, show_changes
from envhub.cli.lock import lock
from envhub.cli.options import debug_option, escaped, json_option, local_path, show_download
from envhub.errors import RemoteCodeRefused, UsageError
from envhub.refs import HubRef, parse
from envhub.sources.fetch import leads_to, obtain, resolve
from envhub.sources.hub import Hub, endpoint
from envhub.sources.lock import LOCK
from envhub.sources.trust import Entry, Ledger


@click.command("trust")
@click.argument("words", nargs=-1, required=True, metavar="REF | list | remove REF")
@click.option("--private", is_flag=True, help="Use your token to read a private repository.")
@click.option("--all", "whole", is_flag=True, help="Cut neither the list nor the changes.")
@click.option(
    "--lock",
    "locking",
    is_flag=True,
    help="Agree to nothing; record REF's commit, files and packages in a lock file for --locked.",
)
@click.option("--out", callback=local_path, default=LOCK, help="Lock file that --lock writes.")
@json_option
@debug_option
def command(
    words: tuple[str, ...],
    *,
    private: bool,
    whole: bool,
    locking: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Review the code of a Hub repository and agree to run it at one commit.

    Resolves a branch to its commit, fetches and checks the files without running them, lists them
    with their requirements and the changes since you last agreed, and asks for your consent. The
    env file and the files that it imports come first; long lists are cut, and say what is hidden.

    \b
    Examples:
        envhub trust owner/repo@main
        envhub trust owner/repo@main --all
        envhub trust list
        envhub trust remove owner/repo
        envhub trust --lock owner/repo@main
    """  # noqa: D301 - click reads the backspace as "do not rewrap"
    if locking and (len(words) != 1 or words == ("list",)):
        raise UsageError("Write envhub trust --lock REF.")
    match words:
        case (text,) if locking:
            lock(text, out, private=private)
        case ("list",):
            entries = Ledger().entries()
            click.echo(_as_json(entries) if as_json else _as_text(entries))
        case ("remove", text):
            _remove(_hub_ref(text))
        case (text,):
            _agree(_hub_ref(text), private=private, whole=whole)
        case _:
            raise UsageError(
                "Write envhub trust REF, envhub trust list or envhub trust remove REF."
            )


def _agree(ref: HubRef, *, private: bool, whole: bool) -> None:
    if not ref.pinned:
        ref = resolve(ref, Hub(private=private))
    assert ref.revision is not None
    stored = obtain(ref, private=private, on_progress=show_download)
    click.echo(show(ref, stored, whole=whole))
    ledger, here = Ledger(), endpoint()
    before = [e for e in ledger.entries() if (e.endpoint, e.repo) == (here, ref.repo_id)]
    if any(entry.commit == ref.revision for entry in before):
        click.echo(f"\nYou have already agreed to this commit. Evaluate it with: envhub eval {ref}")
        return
    if before:
        click.echo("\n" + show_changes(ref, stored, before[-1].commit, whole=whole))
    if warning := _doubt(ref, private=private):
        click.echo("\n" + warning)
    if not sys.stdin.isatty():
        raise RemoteCodeRefused(
            f"Refusing to execute remote code from {ref}: there is no terminal to ask on. Run "
            f"envhub trust {ref} in a terminal."
        )
    if not click.confirm("\nRun this code on this machine, in a sandbox?", default=False):
        raise RemoteCodeRefused(f"Refusing to execute remote code from {ref}: you declined.")
    ledger.add(here, ref.repo_id, ref.revision)
    click.echo(f"Agreed. Evaluate it with: envhub eval {ref}")


def _doubt(ref: HubRef, *, private: bool) -> str:
    """Why the commit may not be the repository's own, or ""."""
    if leads_to(ref, private=private):
        return ""
    return (
        f"Warning: no branch or tag of {ref.repo_id} leads to this commit. Anybody may have made "
        "it, for example in a pull request; it need not be the owner's."
    )


def _remove(ref: HubRef) -> None:
    if ref.revision is not None and not ref.pinned:
        raise UsageError(
            f"Consent is per commit: remove {ref.repo_id}@<commit>, or {ref.repo_id} for all."
        )
    removed = Ledger().remove(ref.repo_id, ref.revision)
    if not removed:
        raise UsageError(f"You have not agreed to run {ref.repo_id}. See envhub trust list.")
    for entry in removed:
        click.echo(f"Removed {entry.repo}@{entry.commit}")


def _hub_ref(text: str) -> HubRef:
    ref = parse(text)
    if not isinstance(ref, HubRef):
        raise UsageError(f"{text} is not a Hub reference; only code from the Hub needs consent.")
    return ref


def _as_json(entries: tuple[Entry, ...]) -> str:
    return json.dumps({"trusted": msgspec.to_builtins(entries)}, indent=2)


def _as_text(entries: tuple[Entry, ...]) -> str:
    if not entries:
        return "You have not agreed to run any code from the Hub."
    lines = (f"{e.repo}@{e.commit}  {e.agreed}  {e.endpoint}" for e in entries)
    return "\n".join(map(escaped, lines))
