"""Removing directories that foreign code could write to.

Guards import this module, so it imports little: no pathlib.
"""

import os
import stat


def remove_tree(directory: "str | os.PathLike[str]", *, owner: int | None = None) -> None:
    """Remove a directory that foreign code could write to, whatever it left there.

    However deep it nested others, and whoever it shut out of them: each directory is made
    accessible, and those in it are moved up, so that three descriptors are enough. Links are not
    followed. What cannot be removed is left.

    Args:
        directory: Its path; nothing is done if it does not exist or is empty text.
        owner: The user that it must belong to; None: it may belong to anybody.
    """
    path = os.fspath(directory)
    try:
        top = _enter(path, owner=owner)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path)
    except OSError:
        return


def _empty(top: int) -> None:
    pending = _remove_files(top)
    while pending:
        name = pending.pop()
        try:
            _lift_directories(name, top, pending)
            os.rmdir(name, dir_fd=top)
        except OSError:  # it stays, and so does the directory that it is in
            continue


def _lift_directories(name: str, top: int, pending: list[str]) -> None:
    """Remove the files in a directory, and move the directories in it up, under new names."""
    inner = _enter(name, top)
    try:
        for child in _remove_files(inner):
            os.close(_enter(child, inner))  # only who can write to it can move it
            moved = os.urandom(16).hex()
            os.rename(child, moved, src_dir_fd=inner, dst_dir_fd=top)
            pending.append(moved)
    finally:
        os.close(inner)


def _enter(name: str, parent: int | None = None, *, owner: int | None = None) -> int:
    """Open a directory that its owner may have shut; never one that a link leads to."""
    flags = os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open(name, flags | os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
    try:
        found = os.fstat(opened)
        if owner not in (None, found.st_uid):
            raise PermissionError(f"{name} belongs to another user")
        if found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{opened}", stat.S_IRWXU)
        return os.open(f"/proc/self/fd/{opened}", flags | os.O_RDONLY)
    finally:
        os.close(opened)


def _remove_files(directory: int) -> list[str]:
    """Remove all but the directories in a directory; return their names."""
    with os.scandir(directory) as listed:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
    for name, is_directory in entries:
        if not is_directory:
            _unlink(name, directory)
    return [name for name, is_directory in entries if is_directory]


def _unlink(name: str, directory: int) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:  # it stays
        return
