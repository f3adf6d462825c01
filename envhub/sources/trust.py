"""Decide whether code from the Hub may be executed: the only place, and before any request.

Consent is given for one commit: by `trust_remote_code=True` together with a pinned reference, or by
an entry in the ledger that `envhub trust` made. Nothing else is consent: no name, no cache, no
offline mode, no environment variable, nothing that a repository says.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from envhub.config import config_home
from envhub.errors import RemoteCodeRefused, UnpinnedReference, UsageError
from envhub.files import write_whole
from envhub.refs import HubRef


@dataclass(frozen=True, slots=True)
class Trusted:
    """The code may run."""

    consent: Literal["flag", "ledger"]


@dataclass(frozen=True, slots=True)
class Refused:
    """The code may not run."""

    reason: Literal["unpinned", "untrusted"]


Decision = Trusted | Refused


_Word = Annotated[str, Meta(pattern="^[!-~]{1,2000}\\Z")]
"""Printable, without a space."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit that the user has agreed to."""

    endpoint: _Word
    repo: _Word
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{40}\\Z")]
    agreed: _Word
    """When, in UTC."""


class _Agreed(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the ledger's file."""

    trusted: tuple[Entry, ...]


def decide(
    ref: HubRef,
    endpoint: str,
    ledger: Iterable[Entry],
    *,
    trust_remote_code: bool,
    allow_unpinned: bool,
) -> Decision:
    """Decide whether the code of a reference may be executed. Pure."""
    consent = trust_remote_code is True  # not "yes", not 1
    if not ref.pinned:
        return Trusted("flag") if consent and allow_unpinned is True else Refused("unpinned")
    if consent:
        return Trusted("flag")
    known = {(entry.endpoint, entry.repo, entry.commit) for entry in ledger}
    if (endpoint, ref.repo_id, ref.revision) in known:
        return Trusted("ledger")
    return Refused("untrusted")


def refusal(ref: HubRef, decision: Refused) -> UnpinnedReference | RemoteCodeRefused:
    """Return the error for a refusal, with the commands to copy."""
    if decision.reason == "unpinned":
        moving = f"{ref.repo_id}@{ref.revision or 'main'}"
        return UnpinnedReference(
            f"{ref} can change at any time: only a full commit is a pin. Refusing to execute "
            "remote code that nobody can have reviewed. To resolve the reference, review the files "
            f"and pin the commit:\n  envhub trust {moving}"
        )
    return RemoteCodeRefused(
        f"Refusing to execute remote code from {ref}: nobody here has agreed to it. Review the "
        f"files and agree once, or agree for this command only:\n  envhub trust {ref}\n"
        "  envhub ... --trust-remote-code"
    )


class Ledger:
    """The commits that the user has agreed to, in a file of the user's configuration."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or config_home() / "trust.json"

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first.

        Raises:
            UsageError: The ledger cannot be read.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Agreed).trusted
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as exc:
            problem = exc.strerror if isinstance(exc, OSError) else exc
            raise UsageError(
                f"{self._path}, which has the commits that you agreed to, cannot be read: "
                f"{problem}. Fix or delete it."
            ) from exc

    def add(self, endpoint: str, repo: str, commit: str) -> None:
        """Record the user's consent to a commit."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        new = Entry(endpoint, repo, commit, now)
        key = (endpoint, repo, commit)
        kept = [e for e in self.entries() if (e.endpoint, e.repo, e.commit) != key]
        self._write([*kept, new])

    def remove(self, repo: str, commit: str | None) -> tuple[Entry, ...]:
        """Withdraw consent for one commit or a whole repository; return the removed entries."""
        entries = self.entries()
        removed = tuple(
            e for e in entries if e.repo == repo and (commit is None or e.commit == commit)
        )
        if removed:
            self._write([entry for entry in entries if entry not in removed])
        return removed

    def _write(self, entries: list[Entry]) -> None:
        content = msgspec.json.format(msgspec.json.encode(_Agreed(tuple(entries))), indent=2)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, content + b"\n", mode=0o600)
        except OSError as exc:
            raise UsageError(f"{self._path} cannot be written: {exc.strerror}.") from exc
