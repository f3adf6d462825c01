"""Git's objects: what ties bytes to a commit. Pure.

A commit's id is the hash of an object that names a tree; a tree's id is the hash of a list of
names and ids; a file's id is the hash of its bytes. Who has the objects can check every byte
against forty digits, wherever the bytes came from.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

FILE_MODES = frozenset({"100644", "100755"})
LINK_MODE = "120000"
_TREE_MODE = "40000"
_MAX_ENTRIES = 100_000


class BrokenProof(ValueError):
    """The objects do not add up to the commit."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit."""

    mode: str
    blob_id: str


def object_id(kind: str, content: bytes) -> str:
    """The id that git gives an object."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def pointer_id(sha256: str, size: int) -> str:
    """The id of the pointer file that stands in a tree for a file in large-file storage."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return object_id("blob", text.encode())


def tree_of(commit: str, content: bytes) -> str:
    """The tree that a commit object names.

    Raises:
        BrokenProof: It is another commit's object, or none.
    """
    if object_id("commit", content) != commit:
        raise BrokenProof(f"the commit object is not {commit}")
    first, _, _ = content.partition(b"\n")
    kind, _, tree = first.partition(b" ")
    if kind != b"tree" or len(tree) != 40:
        raise BrokenProof("the commit object names no tree")
    return tree.decode()


def parse_tree(tree: str, content: bytes) -> list[tuple[str, str, str]]:
    """The entries of a tree object: mode, name, id.

    Raises:
        BrokenProof: It is another tree's object, or none.
    """
    if object_id("tree", content) != tree:
        raise BrokenProof(f"a tree object is not {tree}")
    entries: list[tuple[str, str, str]] = []
    position = 0
    while position < len(content):
        end = content.find(b"\0", position)
        if end < 0 or end + 21 > len(content):
            raise BrokenProof(f"the tree object {tree} is cut short")
        mode, _, name = content[position:end].partition(b" ")
        try:
            entries.append((mode.decode(), name.decode(), content[end + 1 : end + 21].hex()))
        except UnicodeDecodeError as exc:
            raise BrokenProof(f"the tree object {tree} has a name that is no text") from exc
        position = end + 21
    return entries


def walk(commit: str, objects: Mapping[str, bytes]) -> dict[str, TreeEntry]:
    """All files of a commit, by their path, from its objects.

    Args:
        commit: Its id.
        objects: The commit's and the trees' contents, by id.

    Raises:
        BrokenProof: An object is missing, or is not what its id says.
    """
    found: dict[str, TreeEntry] = {}
    waiting = [("", tree_of(commit, _get(objects, commit)))]
    while waiting:
        prefix, tree = waiting.pop()
        for mode, name, identity in parse_tree(tree, _get(objects, tree)):
            path = f"{prefix}{name}"
            if mode == _TREE_MODE:
                waiting.append((f"{path}/", identity))
            else:
                found[path] = TreeEntry(mode, identity)
            if len(found) + len(waiting) > _MAX_ENTRIES:
                raise BrokenProof(f"it has more than {_MAX_ENTRIES} files")
    return found


def _get(objects: Mapping[str, bytes], identity: str) -> bytes:
    if identity not in objects:
        raise BrokenProof(f"the object {identity} is missing")
    return objects[identity]
