"""Git's objects, which prove that files belong to a commit.

A commit's id is the hash of an object that names a tree; a tree's id is the hash of a list of
names and ids; a file's id is the hash of its bytes. With the objects, every byte can be checked
against the commit's forty digits, wherever the bytes came from.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envhub import process
from envhub.errors import SourceCorrupt, SourceUnavailable

FILE_MODES = frozenset({"100644", "100755"})
LINK_MODE = "120000"
_TREE_MODE = "40000"
_MAX_ENTRIES = 100_000
_TIMEOUT = 60.0
_SILENCE = "10"
"""Seconds without a byte after which git gives up."""
# For a git behind a proxy or with its own certificates. The user's configuration is not read.
_PASSED = (
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip


class BrokenProof(ValueError):
    """The objects do not prove the commit."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit."""

    mode: str
    blob_id: str


def object_id(kind: str, content: bytes) -> str:
    """Return the id that git gives an object."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def pointer_id(sha256: str, size: int) -> str:
    """Return the id of the pointer file that a tree has for a file in large-file storage."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return object_id("blob", text.encode())


def tree_of(commit: str, content: bytes) -> str:
    """Return the id of the tree that a commit object names.

    Raises:
        BrokenProof: The content is not the object of this commit.
    """
    if object_id("commit", content) != commit:
        raise BrokenProof(f"the commit object is not {commit}")
    first, _, _ = content.partition(b"\n")
    keyword, _, tree = first.partition(b" ")
    if keyword != b"tree" or len(tree) != 40:
        raise BrokenProof("the commit object names no tree")
    return tree.decode()


def parse_tree(tree: str, content: bytes) -> list[tuple[str, str, str]]:
    """Return the entries of a tree object: mode, name, id.

    Raises:
        BrokenProof: The content is not the object of this tree.
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
            raise BrokenProof(f"the tree object {tree} has a name that is not UTF-8") from exc
        position = end + 21
    return entries


def walk(commit: str, objects: Mapping[str, bytes]) -> dict[str, TreeEntry]:
    """Return all files of a commit by their path, read from its objects.

    Args:
        commit: The commit's id.
        objects: The contents of the commit and its trees, by id.

    Raises:
        BrokenProof: An object is missing, or does not match its id.
    """
    files: dict[str, TreeEntry] = {}
    pending = [("", tree_of(commit, _get(objects, commit)))]
    while pending:
        prefix, tree = pending.pop()
        for mode, name, identity in parse_tree(tree, _get(objects, tree)):
            path = f"{prefix}{name}"
            if mode == _TREE_MODE:
                pending.append((f"{path}/", identity))
            else:
                files[path] = TreeEntry(mode, identity)
            if len(files) + len(pending) > _MAX_ENTRIES:
                raise BrokenProof(f"it has more than {_MAX_ENTRIES} files")
    return files


def has_git() -> bool:
    """Whether git is installed, without which there is no proof."""
    return shutil.which("git") is not None


def fetch_objects(url: str, commit: str, token: str | None) -> dict[str, bytes]:
    """Fetch the commit object and all tree objects below it, but no files.

    Args:
        url: The repository.
        commit: The commit's id.
        token: The user's token, for a private repository.

    Returns:
        The contents of the objects, by id.

    Raises:
        SourceUnavailable: Git could not fetch the objects.
        SourceCorrupt: The objects are not those of the commit.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-git-") as place:
        repository = Path(place) / "proof.git"
        environment = _environment(Path(place), token)
        fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", url, commit]
        for arguments in (["init", "--quiet", "--bare", str(repository)], fetch):
            where = ["-C", str(repository)] if arguments[0] == "fetch" else []
            done = process.run(["git", *where, *arguments], timeout=_TIMEOUT, env=environment)
            if done is None or done.code != 0:
                said = done.stderr.strip().splitlines()[-1] if done and done.stderr else "no answer"
                raise SourceUnavailable(
                    f"git could not fetch {commit} from {url}: {said}. The files cannot be checked "
                    "against the commit without git's objects; try again."
                )
        return _collect(repository, commit, environment)


def _get(objects: Mapping[str, bytes], identity: str) -> bytes:
    if identity not in objects:
        raise BrokenProof(f"the object {identity} is missing")
    return objects[identity]


def _collect(repository: Path, commit: str, environment: dict[str, str]) -> dict[str, bytes]:
    try:
        objects = _read(repository, [commit], environment)
        level = [tree_of(commit, objects.get(commit, b""))]
        while level:
            objects |= _read(repository, level, environment)
            level = [
                identity
                for tree in level
                for mode, _, identity in parse_tree(tree, objects.get(tree, b""))
                if mode == _TREE_MODE and identity not in objects
            ]
    except BrokenProof as exc:
        raise SourceCorrupt(f"The objects from git are not those of {commit}: {exc}.") from exc
    return objects


def _read(repository: Path, names: list[str], environment: dict[str, str]) -> dict[str, bytes]:
    """Return the contents of objects, by id; missing objects are left out."""
    argv = ["git", "-C", str(repository), "cat-file", "--batch"]
    done = process.run_bytes(
        argv, "\n".join(names).encode() + b"\n", timeout=_TIMEOUT, env=environment
    )
    objects: dict[str, bytes] = {}
    rest = done.stdout if done else b""
    while rest:
        header, _, rest = rest.partition(b"\n")
        words = header.decode(errors="replace").split()
        if len(words) != 3 or not words[2].isdecimal():
            break  # the caller reports a missing object
        size = int(words[2])
        objects[words[0]], rest = rest[:size], rest[size + 1 :]
    return objects


def _environment(home: Path, token: str | None) -> dict[str, str]:
    variables = {name: os.environ[name] for name in _PASSED if name in os.environ}
    variables |= {
        "HOME": str(home),
        "GIT_ALLOW_PROTOCOL": "http:https",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_HTTP_LOW_SPEED_LIMIT": "1",
        "GIT_HTTP_LOW_SPEED_TIME": _SILENCE,
        "GIT_TERMINAL_PROMPT": "0",
    }
    if token is not None:  # other users of the machine could read it on the command line
        variables |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Bearer {token}",
        }
    return variables
