"""What EnvHub has noted about this machine, for the caches of tests, which begin empty.

Trying what draws and whether bubblewrap works takes a quarter of a second of every first command.
"""

import os
import shutil
from pathlib import Path

from envhub.machine.gl_choice import gl_variables
from envhub.sandbox import bubblewrap
from envhub.sandbox.choose import why_unavailable

NOTES = ("bubblewrap.json", "gl.json")


def make_notes() -> None:
    """Try both, in the cache that the variables say."""
    gl_variables({})
    bwrap = shutil.which("bwrap")
    if bwrap is not None and why_unavailable("bubblewrap") is None:
        bubblewrap.remember(bwrap, bubblewrap.known_options(bwrap))


def bring_notes(cache: Path, source: Path | None = None) -> None:
    """Copy the notes into a cache; by default those in the home of the test."""
    cache.mkdir(parents=True, exist_ok=True)
    for name in NOTES:
        note = (source or Path(os.environ["HOME"])) / ".cache" / "envhub" / name
        if note.exists():
            shutil.copy(note, cache)
