"""`envhub.json` beside a checkpoint: what LeRobot's own files do not say of it.

Read by the host, and again where the policy is made.
"""

import json
from pathlib import Path

from envhub.conventions import Convention, check_conventions
from envhub.errors import ContractError

SIDECAR = "envhub.json"
_KEYS = ("conventions",)
_MAX_BYTES = 2**20


def parse_sidecar(path: Path, data: bytes) -> dict[str, Convention]:
    """Return the conventions that a checkpoint's `envhub.json` declares.

    Args:
        path: Its path, for errors.
        data: Its bytes.

    Raises:
        ContractError: The file is something else.
    """
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError("it is too large")
        content = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise ContractError(f"{path} cannot be read as JSON: {exc}.") from exc
    if not isinstance(content, dict):
        raise ContractError(f'{path} is not a JSON object such as {{"conventions": {{}}}}.')
    for key in content:
        if key not in _KEYS:
            raise ContractError(f"{path} has the key {key[:80]!r}; it may have {_KEYS[0]!r} only.")
    return check_conventions(str(path), content.get(_KEYS[0], {}))
