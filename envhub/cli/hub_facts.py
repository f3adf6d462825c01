"""Facts about a Hub repository that are known without running any of its code."""

import difflib
import json
from typing import Any

from envhub.cli.options import show_download
from envhub.errors import EnvHubError, printable
from envhub.refs import HubRef, parse
from envhub.sources import store
from envhub.sources.fetch import obtain
from envhub.sources.requirements import Requirements, read_requirements
from envhub.sources.store import Stored
from envhub.types import SourceOptions

_SHOWN_FILES = 30

_SHOWN_LINES = 400

_SHOWN_LEFT_OUT = 5


def describe_unexecuted(text: str, options: SourceOptions, *, as_json: bool) -> str:
    """Describe a pinned repository; its files are fetched and checked, not run."""
    ref = parse(text)
    assert isinstance(ref, HubRef)
    stored = obtain(ref, private=options.private, on_progress=show_download)
    return json.dumps(facts(ref, stored), indent=2) if as_json else show(ref, stored)


def facts(ref: HubRef, stored: Stored) -> dict[str, Any]:
    """Return the facts as plain data."""
    manifest, declared = stored.manifest, requirements(ref, stored)
    return {
        "ref": str(ref),
        "endpoint": manifest.endpoint,
        "commit": manifest.commit,
        "proof": manifest.proof,
        "files": {path: file.size for path, file in sorted(manifest.files.items())},
        "left_out": list(manifest.left_out),
        "requirements": {"python": declared.python, "packages": list(declared.packages)},
    }


def show(ref: HubRef, stored: Stored) -> str:
    """Return the facts as text."""
    manifest, declared = stored.manifest, requirements(ref, stored)
    proof = "against the commit itself" if manifest.proof == "git" else "against the Hub's listing"
    lines = [
        f"reference   {ref}",
        f"endpoint    {manifest.endpoint}",
        f"commit      {manifest.commit}, every byte checked {proof}",
        f"requires    {', '.join(declared.packages) or 'nothing but EnvHub'}",
        f"files       {len(manifest.files)}",
    ]
    for path, file in sorted(manifest.files.items())[:_SHOWN_FILES]:
        lines.append(f"  {file.size:>9,}  {path}")
    if len(manifest.files) > _SHOWN_FILES:
        lines.append(f"  and {len(manifest.files) - _SHOWN_FILES} more")
    if manifest.left_out:
        named, more = manifest.left_out[:_SHOWN_LEFT_OUT], manifest.left_out[_SHOWN_LEFT_OUT:]
        lines.append(f"left out    {', '.join(named)}{f' and {len(more)} more' if more else ''}")
    return printable("\n".join(lines))


def show_changes(ref: HubRef, stored: Stored, before: str) -> str:
    """Return the changes since a commit that the user agreed to, if it is still stored."""
    try:
        old = store.load(ref.repo_id, before)
    except EnvHubError:
        old = None
    if old is None:
        return f"You agreed to the earlier commit {before}, which is no longer stored."
    lines: list[str] = []
    for path in sorted(old.manifest.files.keys() | stored.manifest.files.keys()):
        lines += difflib.unified_diff(
            _lines(old, path), _lines(stored, path), f"{before[:8]}/{path}", path, lineterm=""
        )
    if not lines:
        return f"No changes since {before}, which you agreed to."
    rest = f"\n... and {len(lines) - _SHOWN_LINES} more lines" if lines[_SHOWN_LINES:] else ""
    changes = "\n".join(lines[:_SHOWN_LINES]) + rest
    return printable(f"Changes since {before}, which you agreed to:\n{changes}")


def requirements(ref: HubRef, stored: Stored) -> Requirements:
    """Return the requirements that its env file declares."""
    text = (stored.directory / ref.path).read_text(encoding="utf-8", errors="replace")
    return read_requirements(text, ref.path)


def _lines(stored: Stored, path: str) -> list[str]:
    file = stored.directory / path
    if not file.exists():
        return []
    content = file.read_bytes()
    if b"\0" in content:
        return [f"(binary, {len(content)} bytes, sha256 {stored.manifest.files[path].sha256})"]
    return content.decode("utf-8", "replace").splitlines()
