"""Functions that Numba compiles in a runtime, kept for the next worker.

    numba/<key of the runtime>/    in the user's state directory

Compiling those of robosuite takes 15 s. Numba executes what it finds in such a directory, so it is
not part of the cache, and nobody but the user may write to it.
"""

import os
import stat
from pathlib import Path

from envhub.directories import Say
from envhub.errors import RuntimeUnavailable
from envhub.files import discard_tree, state_home


def compiled_functions(key: str) -> Path:
    """Return the directory of the functions that were compiled in a runtime."""
    return state_home() / "numba" / key


def secure_compiled(key: str, message: Say) -> None:
    """Make the directory of a runtime's compiled functions, unless the user has it already.

    A directory that somebody else could have written to is removed first.

    Raises:
        RuntimeUnavailable: It cannot be removed, or none can be made.
    """
    place = compiled_functions(key)
    try:
        if place.is_symlink() or (place.exists() and not _is_private(place)):
            message(f"Somebody else could write to {place}: removing it.")
            _discard(place)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise RuntimeUnavailable(
            f"{place} cannot be made a directory of yours alone: {exc.strerror or exc}.",
            "Remove it, or set XDG_STATE_HOME to a directory of your own.",
        ) from exc


def _is_private(place: Path) -> bool:
    found = place.stat()
    return found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o022


def _discard(place: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        place.unlink()
    else:
        discard_tree(place)
