"""Landlock: a process gives up access to all files but those it lists, also for its children.

Numbers and structures are those of `linux/landlock.h`; the system calls have the same numbers on
all machines. Each ABI version adds something: 2 renames across directories, 3 restricts truncating,
4 TCP, 5 the ioctls of devices, 6 signals and abstract sockets.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

NEWEST = 6
"""The newest ABI that is used."""
_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in (6, 11, 14, 15))
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The rights that a rule for something other than a directory may give."""
_READ = _READ_FILE | _READ_DIR | _EXECUTE
_USE = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_OWN = 0xFFFF & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF, 6: 0xFFFF}
"""The rights on files that each ABI knows."""
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract Unix sockets, signals

_pinned: list[int] = []
"""Descriptors that stay open, see `_allow`."""


def version() -> tuple[int, int]:
    """Return the ABI version of this kernel and 0, or -1 and the error number."""
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)), 0
    except OSError as exc:
        return -1, exc.errno or 0


def restrict(
    *,
    readable: Iterable[Path],
    writable: Iterable[Path],
    devices: Iterable[Path],
    network: bool,
    abi: int,
) -> None:
    """Give up access to all other files for good, for the calling thread and its children.

    A directory stands for everything below it; paths that cannot be opened are left out. The
    caller must have set `no_new_privs`.

    Args:
        readable: Paths that may be read and executed.
        writable: Paths that may also be written, created and removed.
        devices: Paths that may be read, written and controlled.
        network: Whether TCP stays allowed; otherwise it is forbidden from ABI 4 on.
        abi: The version to use, at most the kernel's.
    """
    handled = _RIGHTS[min(abi, NEWEST)]
    tcp = 0 if network else _TCP
    attributes = struct.pack("=QQQ", handled, tcp, _SCOPES)
    known = 24 if abi >= 6 else 16 if abi >= 4 else 8  # bytes of the structure
    ruleset = _call(_CREATE, attributes, ctypes.c_size_t(known), ctypes.c_uint32(0))
    for paths, rights in ((readable, _READ), (writable, _OWN), (devices, _USE)):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _FILE_RIGHTS
    rule = struct.pack("=Qi", rights, opened)
    _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    if path.is_relative_to("/proc"):
        # A rule belongs to an inode. When memory is short, procfs drops its inodes and makes new
        # ones, except for those that are open.
        _pinned.append(opened)
    else:
        os.close(opened)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"The Landlock system call {number} failed: {os.strerror(error)}")
    return result
