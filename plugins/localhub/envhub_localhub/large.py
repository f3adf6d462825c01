"""Large files: a commit has a small pointer, and the content is stored beside it, as git-lfs does.

It is in `<repository>.git/lfs/objects/<first two digits>/<next two>/<sha256>`.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from envhub.files import write_whole

REGULAR_BYTES = 10 * 2**20
"""What a file may have at most to be part of a commit itself, as on the Hub."""
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)
POINTER_SIZES = range(120, 150)
"""Bytes of a pointer; other files of a commit need not be read to know that they are none."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a commit has instead of a large file."""

    sha256: str
    size: int
    """Of the large file, in bytes."""

    @classmethod
    def of(cls, data: bytes) -> "Pointer":
        """Return the pointer to a content."""
        return cls(sha256(data).hexdigest(), len(data))

    @classmethod
    def parse(cls, data: bytes) -> "Pointer | None":
        """Return the pointer that a committed file is, or None if it is not one."""
        parts = _POINTER.fullmatch(data)
        return cls(parts[1].decode(), int(parts[2])) if parts else None

    @property
    def data(self) -> bytes:
        """The bytes of the committed file."""
        text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n"
        return f"{text}size {self.size}\n".encode()


@dataclass(frozen=True, slots=True)
class LargeFiles:
    """The contents of a repository's large files."""

    directory: Path

    def has(self, pointer: Pointer) -> bool:
        """Whether the content of a pointer is stored."""
        path = self._path(pointer.sha256)
        return path.is_file() and path.stat().st_size == pointer.size

    def find(self, name: str) -> Pointer | None:
        """Return the pointer to the content with a sha256, or None if it is not stored."""
        path = self._path(name)
        return Pointer(name, path.stat().st_size) if path.is_file() else None

    def read(self, pointer: Pointer) -> bytes:
        """Return the content of a pointer."""
        return self._path(pointer.sha256).read_bytes()

    def write(self, data: bytes) -> Pointer:
        """Store a content."""
        pointer = Pointer.of(data)
        path = self._path(pointer.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, durable=False)
        return pointer

    def _path(self, name: str) -> Path:
        return self.directory / name[:2] / name[2:4] / name


def is_large(path: str, size: int, attributes: str) -> bool:
    """Whether an uploaded file becomes a large file: because of its size, or of its name.

    Args:
        path: Of the file.
        size: In bytes.
        attributes: The repository's `.gitattributes`, whose last matching line counts.
    """
    if size == 0:  # as the client has it: nothing to store
        return False
    large = size > REGULAR_BYTES
    for line in attributes.splitlines():
        pattern, *names = line.split() or [""]
        name = path if "/" in pattern else path.rpartition("/")[2]
        if fnmatch(name, pattern) and any("filter" in each for each in names):
            large = "filter=lfs" in names or size > REGULAR_BYTES
    return large
