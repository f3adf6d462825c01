"""The lock file: the exact files and packages that a reference meant when it was locked.

{"format": 1, "sources": {"owner/repo": {"commit": ..., "files": {path: sha256},
    "requirements": {"declared": ["mujoco"], "pins": ["mujoco==3.3.0 --hash=sha256:..."]}, ...}}}
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envhub.errors import SourceCorrupt, UsageError
from envhub.files import write_whole
from envhub.refs import HubRef
from envhub.sources.requirements import requirements_at
from envhub.sources.store import Manifest, Stored

LOCK = Path("envhub.lock")
FORMAT = 1


def write_lock(ref: HubRef, stored: Stored, path: Path = LOCK, *, pins: Sequence[str] = ()) -> None:
    """Add a source to a lock file, or replace the entry of its repository.

    Args:
        ref: The source.
        stored: The files of the source.
        path: The lock file.
        pins: The lines that the source's requirements were resolved to.
    """
    empty: dict[str, Any] = {"format": FORMAT, "sources": {}}
    content = _read(path) if path.exists() else empty
    content["sources"][ref.repo_id] = _entry(ref, stored, pins)
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    try:
        write_whole(path, text.encode())
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}.") from exc


def check_lock(ref: HubRef, manifest: Manifest, path: Path = LOCK) -> None:
    """Refuse a source that differs from the lock file.

    Raises:
        UsageError: The lock file does not exist, or does not have this source.
        SourceCorrupt: The commit or a file differs.
    """
    if not path.exists():
        raise UsageError(f"--locked needs {path}. Create it with: envhub trust --lock {ref}")
    sources = _read(path)["sources"]
    if ref.repo_id not in sources:
        raise UsageError(
            f"{path} does not have {ref.repo_id}. Add it with: envhub trust --lock {ref}"
        )
    locked = sources[ref.repo_id]
    if locked["commit"] != manifest.commit:
        raise SourceCorrupt(
            f"{ref.repo_id} is locked at {locked['commit']}, but {manifest.commit} was requested. "
            f"Request the locked commit, or lock again: envhub trust --lock {ref}"
        )
    hashes = {name: file.sha256 for name, file in manifest.files.items()}
    expected = locked["files"]
    if hashes != expected:
        names = hashes.keys() | expected.keys()
        different = sorted(name for name in names if hashes.get(name) != expected.get(name))
        raise SourceCorrupt(f"{different[0]} of {ref} differs from {path}. Nothing was executed.")


def locked_pins(repo_id: str, path: Path = LOCK) -> tuple[str, ...]:
    """Return the pins that a lock file has for a source; empty if the source requires nothing.

    Raises:
        UsageError: The lock file cannot be read, or has no pins for the source.
    """
    try:
        return tuple(map(str, _read(path)["sources"][repo_id]["requirements"]["pins"]))
    except (KeyError, TypeError) as exc:
        raise UsageError(f"{path} has no pins for {repo_id}: lock it again.") from exc


def _entry(ref: HubRef, stored: Stored, pins: Sequence[str]) -> dict[str, Any]:
    manifest = stored.manifest
    declared = requirements_at(stored.directory / ref.path, ref.path)
    return {
        "commit": manifest.commit,
        "endpoint": manifest.endpoint,
        "proof": manifest.proof,
        "files": {name: file.sha256 for name, file in manifest.files.items()},
        "requirements": {
            "python": declared.python,
            "declared": list(declared.packages),
            "pins": list(pins),
        },
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or not isinstance(content["sources"], dict):
            raise ValueError("unknown format")
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise UsageError(f"{path} cannot be read: {exc}.") from exc
    return dict(content)
