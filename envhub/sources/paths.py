"""The paths of a commit's files: only plain relative ones are written to the disk, or shown."""

import unicodedata

from envhub.errors import SourceCorrupt
from envhub.refs import HubRef

_MAX_PATH_BYTES = 1000
"""Of a file's path: it must fit below the store's directory, and Linux takes 4,096."""
_MAX_NAME_BYTES = 255
"""Of each name in it, as file systems of Linux have it."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters: control, format, unassigned, private, surrogate, line, paragraph."""


def check_paths(paths: list[str], ref: HubRef) -> None:
    """Check that files can be written below one directory, and that their names are what they seem.

    Raises:
        SourceCorrupt: A path leaves the directory, misleads readers, or is there twice.
    """
    directories = {path[:at] for path in paths for at, c in enumerate(path) if c == "/"}
    seen: set[str] = set()
    for path in paths:
        problem = _find_problem(path)
        if path in seen or path in directories:
            problem = "there is another file or directory of that name"
        if problem:
            raise SourceCorrupt(
                f"{ref} has a file that is not fetched: {path[:_MAX_PATH_BYTES]!a}: {problem}. "
                "Its author can rename it. Nothing was executed."
            )
        seen.add(path)


def _find_problem(path: str) -> str:
    """Return what keeps a text from being a plain relative path, or ""."""
    names = path.split("/")
    if any(name in ("", ".", "..") or name.lower() == ".git" for name in names):
        return "not a path inside a repository"
    # Backslashes separate names elsewhere; the other characters cannot be seen, or hide others.
    if "\\" in path or any(unicodedata.category(c) in _HIDDEN for c in path):
        return "a character that does not belong in a name"
    if len(path.encode()) > _MAX_PATH_BYTES or any(
        len(n.encode()) > _MAX_NAME_BYTES for n in names
    ):
        return "too long"
    return ""
