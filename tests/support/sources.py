"""Sources, as tests make them."""

from dataclasses import replace

from envhub.options import Limits
from envhub.types import Confinement, FileSource, Origin, WorkerSpec

ORIGIN = Origin("me/walk", "0" * 40, "http://127.0.0.1", "git", "flag", {})


def confined(source: FileSource, confinement: Confinement) -> FileSource:
    """A local file as if it came from the Hub."""
    return replace(source, origin=ORIGIN, confinement=confinement)


def confined_spec(confinement: Confinement) -> WorkerSpec:
    """What a worker in a sandbox is started from; it loads nothing."""
    source = FileSource("/nowhere", "env.py", "nowhere", "nowhere", ORIGIN, confinement)
    return WorkerSpec(source, {}, Limits())
