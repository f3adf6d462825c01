"""Functions that Numba compiles in a runtime, kept for the next worker.

    numba/<key of the runtime>/    in the user's state directory

Compiling those of robosuite takes 15 s. Numba executes what it finds in such a directory, so it is
not part of the cache, and nobody but the user may write to it.
"""

import os
import stat
from pathlib import Path

from envhub.files import discard_tree, state_home
from envhub.options import Say


def compiled_functions(key: str) -> Path:
    """Return the directory of the functions that were compiled in a runtime."""
    return state_home() / "numba" / key


def secure_compiled(key: str, message: Say) -> None:
    """Make the directory of a runtime's compiled functions, unless the user has it already.

    A directory that somebody else could have written to is removed first.

    Args:
        key: The key of the runtime.
        message: Receives a message about such a directory.
    """
    place = compiled_functions(key)
    try:
        if place.is_symlink() or (place.exists() and not is_private(place)):
            message(f"Somebody else could write to {place}: removing it.")
            _discard(place)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        message(f"Functions that Numba compiles are not kept in {place}: {exc.strerror or exc}.")


def is_private(place: Path) -> bool:
    """Whether a directory is the user's, and nobody else can write to it."""
    try:
        found = place.lstat()
    except OSError:
        return False
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return own and not stat.S_IMODE(found.st_mode) & 0o022


def _discard(place: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        place.unlink()
    else:
        discard_tree(place)
