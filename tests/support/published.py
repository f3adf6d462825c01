"""Putting a directory on a Hub, and comparing what an evaluation of it gives."""

from pathlib import Path
from typing import Any

from envhub.records import EpisodeRecord
from envhub.testing import LocalHub


def publish(hub: LocalHub, directory: Path, name: str = "me/env") -> str:
    """The pinned reference of a directory, put on the Hub."""
    hub.create(name)
    files = {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return f"{name}@{hub.commit(name, files)}:env.py"


def same(record: EpisodeRecord) -> dict[str, Any]:
    """What must not differ between two runs of an episode."""
    fields = {name: getattr(record, name) for name in type(record).__dataclass_fields__}
    return {k: v for k, v in fields.items() if k not in ("seconds", "attempts")}
