"""The seal of a run: shows that `run.json` was written by this user, and not changed since.

The directory of a run is data: it is copied, downloaded and handed around. `envhub eval --resume`
takes from `run.json` what to execute and how to protect it, so it obeys only what carries a MAC
made with a key that nobody but this user can read.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from envhub.errors import UsageError
from envhub.files import state_home, write_whole

FIELD = "seal"
"""The field of `run.json` that holds the MAC; it covers all others."""

_CONTEXT = b"envhub run.json 1\n"
"""What a MAC is for, so that none made for something else is one of a run."""

_KEY = re.compile(rb"([0-9a-f]{64})\n")


def seal(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `run.json` with this user's seal; see `make_seal`."""
    return {**manifest, FIELD: make_seal(manifest)}


def make_seal(manifest: Mapping[str, Any]) -> str | None:
    """Return this user's seal of the content of `run.json`, over all fields but its own.

    None where no key can be kept, as in a home that cannot be written: such a run is as one of
    somebody else.

    Raises:
        UsageError: The key is not secret, or not a key.
    """
    try:
        return _mac(manifest, _read_key(create=True))
    except OSError:
        return None


def is_sealed(manifest: Mapping[str, Any]) -> bool:
    """Whether the content of `run.json` carries this user's seal.

    Raises:
        UsageError: The key is not secret, or not a key.
    """
    found = manifest.get(FIELD)
    if not isinstance(found, str):
        return False
    try:
        expected = _mac(manifest, _read_key(create=False))
    except (OSError, ValueError):  # no key, or numbers that JSON does not have
        return False
    return hmac.compare_digest(found.encode(errors="replace"), expected.encode())


def check_key() -> None:
    """Make the key if there is none, before anything is executed for a run.

    Raises:
        UsageError: The key is not secret, or not a key.
    """
    with suppress(OSError):
        _read_key(create=True)


def key_path() -> Path:
    """Where the key is kept."""
    return state_home() / "run.key"


def _mac(manifest: Mapping[str, Any], key: bytes) -> str:
    others = {name: value for name, value in manifest.items() if name != FIELD}
    text = json.dumps(others, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"hmac-sha256:{hmac.new(key, _CONTEXT + text.encode(), hashlib.sha256).hexdigest()}"


def _read_key(*, create: bool) -> bytes:
    path = key_path()
    if create and not path.exists():
        _create_key(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_secret(path, os.fstat(descriptor))
        found = _KEY.fullmatch(os.read(descriptor, 100))
    finally:
        os.close(descriptor)
    if found is None:
        raise UsageError(f"{path} is not a key. {_ADVICE}")
    return bytes.fromhex(found[1].decode())


def _create_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        write_whole(part, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
        with suppress(FileExistsError):  # two first runs at once use one key
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


def _check_secret(path: Path, found: os.stat_result) -> None:
    """Refuse a key that others know, or made."""
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file. {_ADVICE}")
    if found.st_uid != os.geteuid():
        raise UsageError(f"{path} belongs to another user (uid {found.st_uid}). {_ADVICE}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise UsageError(f"{path} is open to other users (mode {mode:04o}). {_ADVICE}")


_ADVICE = "Delete it, and continue the runs that were begun with it by eval ... --continue."
